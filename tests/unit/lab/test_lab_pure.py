import gzip
import io
import json
import os
import tarfile
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest

from ssdbench.errors import HostLacks, UsageError
from ssdbench.host.command import run
from ssdbench.lab.archive import archive_address
from ssdbench.lab.disks import DEFAULT, consent, parse, parse_all
from ssdbench.lab.guest import MOST_TEXT_BYTES, Guest, GuestTrouble, answered, complaint, text_of
from ssdbench.lab.kernels import PVH_NOTE, Kernel, from_tree, newest, payload, unpack_image
from ssdbench.lab.machine import Bus, Disk, Machine, arguments
from ssdbench.lab.memory import make_answer_disk, unpack
from ssdbench.lab.tools import Tools, initramfs

ONE = Machine(
    qemu=Path("/q/qemu"), firmware=(Path("/q/fw"),), kernel=Path("/k"), initramfs=Path("/i"),
    console=Path("/c"), share_socket=Path("/s"), control_socket=Path("/m"),
)  # fmt: skip


def test_the_archive_is_found_in_both_forms_of_source_files() -> None:
    modern = "Types: deb\nURIs: http://mirror.example/debian\nSuites: bookworm bookworm-updates\n"
    classic = "deb [arch=amd64] http://mirror.example/debian bookworm main\n"
    other = "Types: deb\nURIs: http://mirror.example/security\nSuites: bookworm-security\n"

    assert archive_address([other, modern]) == "http://mirror.example/debian"
    assert archive_address([classic]) == "http://mirror.example/debian"
    assert archive_address([other]) is None


def test_the_newest_generic_kernel_wins_over_cloud_and_realtime() -> None:
    names = [
        "linux-headers-6.1.0-9-amd64", "linux-headers-6.1.0-50-amd64",
        "linux-headers-6.1.0-51-cloud-amd64", "linux-headers-6.1.0-52-rt-amd64",
        "linux-headers-6.12.95+deb12-amd64",
    ]  # fmt: skip

    assert newest(names, "6.1") == "6.1.0-50-amd64"
    assert newest(names, "6.12") == "6.12.95+deb12-amd64"
    assert newest(names, "6.6") is None
    assert newest(names, "6.1", "rt") == "6.1.0-52-rt-amd64"


def test_a_kernel_tree_is_taken_where_it_was_built_and_only_then(tmp_path: Path) -> None:
    tree, cache = tmp_path / "tree", tmp_path / "cache"
    for name in ("arch/x86/boot", "include/config"):
        (tree / name).mkdir(parents=True)
    with pytest.raises(UsageError, match="arch/x86/boot/bzImage is missing"):
        from_tree(tree, cache)
    (tree / "arch/x86/boot/bzImage").write_text("")
    with pytest.raises(UsageError, match=r"include/config/kernel.release is missing"):
        from_tree(tree, cache)
    (tree / "include/config/kernel.release").write_text("6.99.0-mine\n")
    (tree / "Makefile").write_text(
        "modules_install:\n\ttouch $(INSTALL_MOD_PATH)/lib/modules/6.99.0-mine/installed\n"
    )

    kernel = from_tree(tree, cache)

    assert kernel.release == "6.99.0-mine"
    assert kernel.image == tree / "arch/x86/boot/bzImage"
    assert kernel.headers == kernel.block_source == tree
    assert (kernel.modules / kernel.release / "installed").exists()
    assert kernel.unpacked_image.parent.is_dir()
    assert from_tree(tree, cache) == kernel  # not installed again: guests may use it
    (tree / "source").symlink_to(tmp_path)
    os.utime(tree / "arch/x86/boot/bzImage", (1, 1))
    rebuilt = from_tree(tree, cache)
    assert rebuilt.block_source == tree / "source"
    assert rebuilt.root != kernel.root
    assert not kernel.root.exists()


def test_the_first_file_system_is_a_cpio_archive_with_every_program() -> None:
    data = gzip.decompress(initramfs(["bin"], {"init": b"#!/bin/sh\n", "bin/x": b"12345"}))

    assert data.startswith(b"070701")
    assert data.count(b"070701") == 6  # dev, bin, console, init, bin/x, trailer
    assert b"#!/bin/sh\n" in data
    assert data.endswith(b"TRAILER!!!\0\0\0\0") or b"TRAILER!!!" in data[-128:]


def test_the_compressed_kernel_lies_where_the_head_of_an_image_says() -> None:
    image = bytearray(b"head" * 2048)
    image[0x1F1] = 3  # sectors of set-up, after the one for the boot
    image[0x248:0x250] = (100).to_bytes(4, "little") + (7).to_bytes(4, "little")
    image[4 * 512 + 100 : 4 * 512 + 107] = b"packed!"

    assert payload(bytes(image)) == b"packed!"


def test_an_image_without_its_head_has_nothing_packed_in_it() -> None:
    """A disk that was full when it was built."""
    assert payload(b"") == payload(b"head" * 146) == b""


@pytest.mark.parametrize("packer", ["xz", "zstd", "gzip"])
def test_an_image_is_unpacked_once_for_all_boots(tmp_path: Path, packer: str) -> None:
    kernel = Kernel("6.1", "6.1.0-x", tmp_path)
    (tmp_path / "boot").mkdir()
    plain = b"\x7fELF, and so on" + PVH_NOTE
    packed = run([packer, "-c"], input=plain).raw + len(plain).to_bytes(4, "little")
    head = bytearray(1024)
    head[0x1F1] = 1
    head[0x24C:0x250] = len(packed).to_bytes(4, "little")
    kernel.image.write_bytes(head + packed)

    unpack_image(kernel)

    assert kernel.unpacked_image.read_bytes() == plain


def test_an_image_that_can_only_be_entered_packed_stays_packed(tmp_path: Path) -> None:
    kernel = Kernel("mine", "6.99.0", tmp_path)
    (tmp_path / "boot").mkdir()
    kernel.image.write_bytes(gzipped_image(b"\x7fELF, without a note"))

    unpack_image(kernel)

    assert not kernel.unpacked_image.exists()


@pytest.mark.parametrize("source", ["KASAN_SANITIZE := n\n", ""])
def test_an_image_whose_entry_kasan_watches_stays_packed(tmp_path: Path, source: str) -> None:
    """Linux 6.1 with KASAN and PVH went down before its first word."""
    kernel = Kernel("mine", "6.1.176", tmp_path, tree=tmp_path)
    for path in (entry := tmp_path / "arch/x86/platform/pvh/Makefile"), kernel.image:
        path.parent.mkdir(parents=True)
    (tmp_path / "boot").mkdir()
    entry.write_text(source + "obj-$(CONFIG_PVH) += enlighten.o\n")
    (tmp_path / ".config").write_text("CONFIG_KASAN=y\nCONFIG_PVH=y\n")
    kernel.image.write_bytes(gzipped_image(b"\x7fELF, and so on" + PVH_NOTE))

    unpack_image(kernel)

    assert kernel.unpacked_image.exists() == bool(source)


def gzipped_image(kernel: bytes) -> bytes:
    """A bootable image with a kernel packed in it."""
    packed = gzip.compress(kernel)
    head = bytearray(1024)
    head[0x1F1] = 1
    head[0x24C:0x250] = len(packed).to_bytes(4, "little")
    return bytes(head) + packed


def test_a_guest_that_is_kept_has_a_second_serial_line_to_be_rung_by() -> None:
    serials = [arguments(replace(ONE, bell_socket=bell)).count("-serial")
               for bell in (None, Path("/b"))]  # fmt: skip

    assert serials == [1, 2]


def test_a_reproducible_guest_counts_time_in_instructions_on_one_cpu() -> None:
    argv = arguments(replace(ONE, reproducible=True, kvm=True, cpus=4))

    assert argv[argv.index("-icount") + 1] == "shift=1,sleep=off"
    assert argv[argv.index("-accel") + 1] == "tcg"
    assert argv[argv.index("-smp") + 1] == "1"


def test_a_reproducible_guest_in_memory_never_halts_and_hears_nothing_of_the_host() -> None:
    """A halted CPU's clock is moved on by another thread of QEMU, a little too early at times."""
    fixed = arguments(replace(ONE, reproducible=True, answer=Path("/a")))
    shared = arguments(replace(ONE, reproducible=True))

    assert "idle=poll" in fixed[fixed.index("-append") + 1].split()
    assert fixed[fixed.index("-bios") + 1] == "qboot.rom"
    assert not any("vhost-user" in word for word in fixed)
    assert "virtio-blk-pci,drive=answer,serial=ssdbench-answer" in fixed
    assert "idle=poll" not in shared[shared.index("-append") + 1]
    assert any("vhost-user-fs" in word for word in shared)
    # An emulated CPU does not see what virtiofsd writes where code was.
    assert "init_on_alloc=1" in shared[shared.index("-append") + 1]
    # Also for a driver that is built in, which no list of modules reaches.
    for multipath, word in (True, "nvme_core.multipath=Y"), (False, "nvme_core.multipath=N"):
        behind = arguments(replace(ONE, multipath=multipath))
        assert word in behind[behind.index("-append") + 1].split()
    assert "init_on_alloc=1" not in fixed[fixed.index("-append") + 1]


def test_an_answer_from_a_guests_disk_stays_where_it_belongs(tmp_path: Path) -> None:
    disk, into = tmp_path / "answer", tmp_path / "job"
    into.mkdir()
    make_answer_disk(disk)
    unpack(disk, into)
    assert list(into.iterdir()) == []

    with tarfile.open(disk, "w") as tar:
        for name, kind in (
            ("status", tarfile.REGTYPE), ("../outside", tarfile.REGTYPE), ("..", tarfile.REGTYPE),
            ("link", tarfile.SYMTYPE), ("stderr", tarfile.SYMTYPE),
        ):  # fmt: skip
            member = tarfile.TarInfo(name)
            member.type, member.linkname, member.size = kind, "/etc/passwd", 2
            tar.addfile(member, io.BytesIO(b"0\n") if kind == tarfile.REGTYPE else None)
    unpack(disk, into)

    assert {path.name: path.read_text() for path in into.iterdir()} == {"status": "0\n"}
    assert not (tmp_path / "outside").exists()


def test_a_disk_cut_short_gives_what_came_before_the_cut(tmp_path: Path) -> None:
    disk = tmp_path / "answer"
    with tarfile.open(disk, "w") as tar:
        for name in ("booted_s", "status"):
            member = tarfile.TarInfo(name)
            member.size = 4096
            tar.addfile(member, io.BytesIO(b"x" * 4096))
    disk.write_bytes(disk.read_bytes()[: 512 + 4096 + 512 + 100])

    unpack(disk, tmp_path)

    assert (tmp_path / "booted_s").stat().st_size == 4096


def test_no_guest_gives_up_because_a_busy_host_let_its_clock_wait() -> None:
    argv = arguments(ONE)

    assert "no_timer_check" in argv[argv.index("-append") + 1].split()


def test_warnings_reach_the_console_and_further_words_the_kernel() -> None:
    argv = arguments(replace(ONE, append="slub_debug=FZPU page_poison=1"))
    words = argv[argv.index("-append") + 1].split()

    assert "loglevel=5" in words  # below 5 lies KERN_WARNING, which WARN_ON uses
    assert words[-2:] == ["slub_debug=FZPU", "page_poison=1"]


def test_every_bus_gets_its_device_and_its_serial() -> None:
    disks = tuple(Disk(bus, f"S{bus}", null_bytes=1 << 30) for bus in Bus)

    argv = arguments(replace(ONE, disks=disks))

    devices = [value for flag, value in zip(argv, argv[1:], strict=False) if flag == "-device"]
    for bus, driver in {"nvme": "nvme,", "ahci": "ide-hd,", "virtio": "virtio-blk-pci,",
                        "scsi": "scsi-hd,"}.items():  # fmt: skip
        assert any(d.startswith(driver) and f"serial=S{bus}" in d for d in devices)


def test_without_disks_asked_for_there_is_one_simulated_nvme_drive() -> None:
    assert parse_all([], in_memory=True) == []  # its requests would end when the host says
    (request,) = parse_all([])

    assert request.disk.bus is Bus.NVME
    assert request.sim == DEFAULT.removeprefix("nvme=")


def test_a_file_that_holds_data_is_nobodys_to_destroy_but_its_owners(tmp_path: Path) -> None:
    new, data = tmp_path / "new", tmp_path / "data"
    new.touch()
    os.truncate(new, 1 << 20)
    data.write_bytes(b"letters" * 1000)

    disks = [
        parse(text, index).disk
        for index, text in enumerate(
            [f"nvme={new}", f"nvme={data}", f"virtio={data}", "nvme=null:1GiB", "scsi=sim:p4800x"]
        )
    ]

    agreed = [disk["serial"] for disk in json.loads(consent(disks))]
    assert agreed == ["SSDBENCH-LAB-0", "SSDBENCH-LAB-3", "SSDBENCH-LAB-4"]


def test_a_disk_line_carries_its_options() -> None:
    request = parse("nvme,queues=1,hotplug=sim:p4800x,capacity=1GiB", 3)

    assert (request.disk.io_queues, request.disk.hotplug) == (1, True)
    assert request.sim == "sim:p4800x,capacity=1GiB"
    assert request.disk.serial.endswith("3")


@pytest.mark.parametrize("name", ["my,disk.img", "a=b.img", "a,filename=victim.img", "a,b=c=d,,e"])
def test_a_file_of_any_name_is_the_one_that_qemu_opens(name: str, tmp_path: Path) -> None:
    (tmp_path / name).touch()
    disks = [parse(f"{front}={tmp_path / name}", 0).disk
             for front in ("virtio", "nvme,queues=2", "nvme,hotplug")]  # fmt: skip

    for disk in disks:
        argv = arguments(replace(ONE, disks=(disk,)))
        opened = next(word for word in argv if word.startswith("driver=file,"))
        held = qemu_options(opened)
        assert (disk.image, held["filename"]) == (tmp_path / name, str(tmp_path / name))


def qemu_options(text: str) -> dict[str, str]:
    """As QEMU reads them (util/keyval.c): a comma ends a value, two are one comma of it."""
    words = text.replace(",,", "\0").split(",")
    return {
        key: value.replace("\0", ",") for key, _, value in (word.partition("=") for word in words)
    }


def test_places_of_the_lab_reach_qemu_whole_whatever_they_are_called(tmp_path: Path) -> None:
    place = tmp_path / "a,server=off"
    machine = replace(
        ONE, console=place / "c", share_socket=place / "s", control_socket=place / "m",
        bell_socket=place / "b",
    )  # fmt: skip
    said = [word.replace(",,", "\0").split(",") for word in arguments(machine)]

    wanted = {
        f"{prefix}{place}/{name}".replace(",", "\0")
        for prefix, name in (("path=", "c"), ("path=", "s"), ("unix:", "m"), ("unix:", "b"))
    }
    assert wanted <= {part for parts in said for part in parts}


def test_zones_are_those_of_a_namespace() -> None:
    disk = parse("nvme,queues=1,zoned=4MiB,open=3=null:1GiB", 0).disk
    argv = arguments(replace(ONE, disks=(disk,)))

    assert "nvme,serial=SSDBENCH-LAB-0,id=dev0,max_ioqpairs=1" in argv
    assert (
        "nvme-ns,drive=disk0,bus=dev0,nsid=1,shared=off,zoned=on,zoned.zone_size=4194304,zoned.max_open=3"
        in argv
    )


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("nvme=null:0", "0 bytes"),
        ("nvme,queues=0=null:1GiB", "from 1 to"),
        ("nvme,queues=-3=null:1GiB", "from 1 to"),
        ("virtio,queues=2=null:1GiB", "works with nvme"),
        ("ahci,hotplug=null:1GiB", "not with ahci"),
        ("nvme,hotplug=no=null:1GiB", "no value"),
        ("nvme,fail=5=null:1GiB", "only with a file"),
        ("nvme,fail=5=sim:p4800x", "only with a file"),
        ("virtio,zoned=4MiB=null:1GiB", "works with nvme"),
        ("nvme,zoned=3MiB=null:1GiB", "power of two"),
        ("nvme,open=3=null:1GiB", "needs zoned"),
        ("nvme,zoned=4MiB,open=0=null:1GiB", "at least 1"),
        ("nvme,zoned=4MiB,hotplug=null:1GiB", "cannot be used together"),
    ],
)
def test_an_option_that_would_do_nothing_is_refused(text: str, why: str) -> None:
    with pytest.raises(UsageError, match=why):
        parse(text, 0)


@pytest.mark.parametrize(
    "text", ["nvme", "floppy=null:1GiB", "nvme,warp=null:1GiB", "nvme=/nowhere"]
)
def test_a_wrong_disk_line_gets_a_sentence(text: str) -> None:
    with pytest.raises(UsageError, match="disk"):
        parse(text, 0)


@pytest.mark.parametrize(
    "line",
    [
        "BUG: KASAN: slab-use-after-free in flash_complete+0x1/0x2 [ssdb_flash]",
        "BUG: KCSAN: data-race in _copy_from_iter / slam_done [ssdb_slam]",
        "UBSAN: shift-out-of-bounds in kmod/ftl/gc.c:1:2",
        "WARNING: possible circular locking dependency detected",
        "[ BUG: Invalid wait context ]",
        "INFO: trying to register non-static key.",
        "kmemleak: 2 new suspected memory leaks (see /sys/kernel/debug/kmemleak)",
    ],
)
def test_what_a_kernel_with_checks_complains_of_is_a_complaint(line: str) -> None:
    usual = (
        "kmemleak: Kernel memory leak detector initialized (mem pool available: 15725)\n"
        "FAULT_INJECTION: forcing a failure.\n"
        "[    3.1] BUG: KCSAN: data-race in inode_needs_update_time / inode_update_timestamps\n"
        "python3: page allocation failure: order:0, mode:0xcc0(GFP_KERNEL)\n"
    )

    assert complaint(usual) == ""
    assert complaint(f"{usual}[    4.7] {line}\n") == f"[    4.7] {line}"


@pytest.mark.parametrize("handed_on", [False, True])
def test_output_that_was_handed_on_is_not_read_again(*, handed_on: bool, tmp_path: Path) -> None:
    said = tmp_path / "1"
    said.mkdir()
    for name, text in {"stdout": "hours of it", "stderr": "", "status": "0"}.items():
        (said / name).write_text(text)

    answer = answered(tmp_path, said, tmp_path / "up", "", 0, 1.0, handed_on=handed_on)
    with pytest.raises(GuestTrouble, match="BUG: planted") as caught:
        answered(tmp_path, said, tmp_path / "up", "BUG: planted", 0, 1.0, handed_on=handed_on)

    assert answer.stdout == ("" if handed_on else "hours of it")
    assert ("hours of it" in caught.value.hint) == (not handed_on)


@pytest.mark.parametrize("status", ["256", "-1", "1e3", "yes", "0x0", "9" * 5000])
def test_a_status_that_is_none_is_no_success(status: str, tmp_path: Path) -> None:
    (tmp_path / "1").mkdir()
    (tmp_path / "1" / "status").write_text(status)

    with pytest.raises(HostLacks, match="the guest's answer is damaged"):
        answered(tmp_path, tmp_path / "1", tmp_path / "up", "", 0, 1.0)


def outside(tmp_path: Path) -> Path:
    """A file of the host that no guest may have read or written."""
    (tmp_path / "host").mkdir()
    secret = tmp_path / "host" / "stdout"
    secret.write_text("secret")
    return secret


def replaced(kind: str, said: Path, secret: Path) -> None:
    """What a guest can put in the place of its command's files."""
    match kind:
        case "pipe":
            os.mkfifo(said / "stdout")
        case "link":
            (said / "stdout").symlink_to(secret)
        case "directory":
            (said / "stdout").mkdir()
        case "directory that is a link":
            said.rmdir()
            said.symlink_to(secret.parent)
        case "all that is shared is a link":
            said.rmdir()
            said.parent.rmdir()
            (secret.parent / said.name).symlink_to(secret.parent)
            said.parent.symlink_to(secret.parent)


KINDS = ["pipe", "link", "directory", "directory that is a link", "all that is shared is a link"]


@pytest.mark.parametrize("kind", KINDS)
def test_nothing_that_a_guest_puts_in_place_of_its_output_hangs_or_is_read(
    kind: str, tmp_path: Path
) -> None:
    secret = outside(tmp_path)
    said = tmp_path / "share" / "job" / "1"
    said.mkdir(parents=True)
    replaced(kind, said, secret)

    assert text_of(said / "stdout", tmp_path / "share") == ""


def test_a_text_without_end_is_cut_and_says_so(tmp_path: Path) -> None:
    with (tmp_path / "stdout").open("wb") as file:
        file.truncate(1 << 40)

    text = text_of(tmp_path / "stdout", tmp_path)

    assert len(text) < MOST_TEXT_BYTES + 100
    assert text.endswith("more bytes were left out)\n")


@pytest.mark.parametrize("to", ["", "2"])
def test_what_a_guest_is_given_follows_no_link_of_its(to: str, tmp_path: Path) -> None:
    secret = outside(tmp_path)
    kernel = Kernel("6.12", "6.12.1", tmp_path)
    tools = Tools(tmp_path, (), (), tmp_path, tmp_path)  # none of them is started
    guest = Guest(ONE, tmp_path, kernel=kernel, tools=tools, cwd=tmp_path)
    shared = tmp_path / "share" / "job"
    link = shared / to if to else shared / "off"
    link.symlink_to(secret.parent if to else secret)
    shared.rename(tmp_path / "share" / "elsewhere")
    shared.symlink_to(secret.parent)

    with suppress(HostLacks):
        guest._give("off", "x", to=to)
    guest.kill()

    assert {path.name: path.read_text() for path in secret.parent.iterdir()} == {"stdout": "secret"}


def test_a_sparse_member_of_an_answer_fills_no_disk(tmp_path: Path) -> None:
    """A guest says 1 TiB in a few hundred bytes."""
    disk = tmp_path / "answer"
    sparse = tarfile.TarInfo("stdout")
    sparse.pax_headers = {
        "GNU.sparse.major": "0", "GNU.sparse.minor": "1", "GNU.sparse.name": "stdout",
        "GNU.sparse.size": str(1 << 40), "GNU.sparse.numblocks": "1", "GNU.sparse.map": "0,0",
    }  # fmt: skip
    with tarfile.open(disk, "w", format=tarfile.PAX_FORMAT) as tar:
        tar.addfile(sparse)

    unpack(disk, tmp_path)

    assert not (tmp_path / "stdout").exists()
