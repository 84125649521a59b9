from dataclasses import replace
from pathlib import Path

import pytest

from ssdbench.errors import HostLacks
from ssdbench.host.command import run
from ssdbench.lab.archive import Archive
from ssdbench.lab.guest import BOOTS, GuestTrouble, text_of
from ssdbench.lab.kernels import SERIES
from ssdbench.lab.machine import Machine
from ssdbench.lab.session import GuestRequest, InMemory, Lab, built_modules, kept_guest
from tests.vm.conftest import EVERY_KERNEL, REPOSITORY, Guest, Kept, cache

pytestmark = pytest.mark.vm


@EVERY_KERNEL
def test_the_guest_runs_the_kernel_that_was_asked_for(guest: Guest) -> None:
    answer = guest(
        "uname -r; cat /sys/block/nvme0n1/queue/scheduler\n"
        # What a host has, too: a here-document by its descriptor, stdin by its name, cgroups.
        "cat <(echo of a process) /dev/stdin <<< 'of stdin'\n"
        "cat\n"  # which has nothing to read, and does not wait for somebody to write
        "cat /sys/fs/cgroup/cgroup.controllers; exit 7",
        modules=False,
    )

    release, scheduler, *said, controllers = answer.stdout.splitlines()
    assert answer.status == 7
    assert said == ["of a process", "of stdin"]
    assert "memory" in controllers
    assert any(release.startswith(f"{series}.") for series in SERIES)
    assert "[none]" in scheduler


def test_what_the_guest_writes_does_not_reach_the_host(guest: Guest) -> None:
    mark = REPOSITORY / "written-by-a-guest"

    answer = guest(
        f"touch {mark} && mount -o remount,rw /share 2>/dev/null || true; "
        f"rm -f {REPOSITORY}/LICENSE; ls {mark}; ls /proc/1/root/share 2>/dev/null || true",
        modules=False,
    )

    assert str(mark) in answer.stdout
    assert not mark.exists()
    assert (REPOSITORY / "LICENSE").exists()


# The cache of these tests, but for what a file system beneath another one has of its own.
CACHE_ELSEWHERE = """
mount -t tmpfs none "$1"; mkdir "$1/inner"; mount -t tmpfs none "$1/inner"
ln -s "$2"/[a-z]* "$1/inner"; rm "$1"/inner/modules-* "$1"/inner/*.lock
cp -a "$2"/modules-*-* "$1/inner"
SSDBENCH_LAB_CACHE="$1/inner" exec .venv/bin/python -m ssdbench lab run -- \\
  sh -c 'test -e $KDIR/Makefile && cut -d" " -f1 /proc/modules'
"""


def test_the_cache_may_be_on_a_file_system_of_its_own(lab: Lab, tmp_path: Path) -> None:
    built_modules(lab.kernel, cache())

    said = run(
        [
            "unshare", "--mount", "--propagation", "private",
            "sh", "-euc", CACHE_ELSEWHERE, "sh", str(tmp_path), str(cache()),
        ],
        timeout_s=500,
    )  # fmt: skip

    assert "ssdb_slam" in said.stdout.split()


def test_an_oops_in_the_guest_fails_the_run_and_is_shown(guest: Guest) -> None:
    with pytest.raises((GuestTrouble, HostLacks), match=r"complained|panic") as caught:
        guest("echo the last words; sleep 1; echo c > /proc/sysrq-trigger; sleep 5", modules=False)

    assert "the last words" in caught.value.hint
    assert "sysrq triggered crash" in caught.value.hint.lower()


@pytest.mark.soak
def test_an_early_complaint_about_memory_is_not_lost_among_later_lines(guest: Guest) -> None:
    complaint = "BUG kmalloc-64 (Tainted: G           O): Poison overwritten"

    with pytest.raises(GuestTrouble, match=r"BUG kmalloc-64"):
        guest(
            f"echo '<6>{complaint}' > /dev/kmsg\n"  # nothing that a console shows
            "for line in $(seq 10000); do echo '<6>refused, as ten thousand times before'; done"
            " > /dev/kmsg",
            modules=False,
        )


def test_a_kept_guest_runs_one_command_after_the_other_until_its_kernel_complains() -> None:
    request = GuestRequest((), series="6.12", disks=(), cwd=REPOSITORY, modules=False)

    with kept_guest(request, cache()) as guest:
        first = guest.run(["sh", "-c", "echo said > /run/x; echo '<6>once' > /dev/kmsg; exit 3"],
                          timeout_s=300)  # fmt: skip
        second = guest.run(["cat", "/run/x"], timeout_s=300)
        with pytest.raises(GuestTrouble, match="WARNING: planted") as caught:
            guest.run(["sh", "-c", "echo '<4>WARNING: planted' > /dev/kmsg"], timeout_s=300)
        with pytest.raises(HostLacks, match="is down"):
            guest.run(["true"], timeout_s=300)

    assert (first.status, second.status, second.stdout) == (3, 0, "said\n")
    assert "once" in first.console
    assert "once" not in second.console + caught.value.hint
    assert first.boot_s == second.boot_s > 0


def test_what_a_test_leaves_in_a_kept_guest_is_put_back_or_ends_it() -> None:
    def asked(script: str) -> GuestRequest:
        argv = ("bash", "-euc", script)
        return GuestRequest(argv, series="6.12", disks=(), cwd=REPOSITORY, timeout_s=300)

    kept = Kept()
    boot = "cat /proc/sys/kernel/random/boot_id; ls -d /sys/module/null_blk /run/x || true"
    try:
        at_first = kept.run(asked(boot)).stdout
        kept.run(asked("modprobe null_blk; touch /run/x; sleep 600 < /dev/nullb0 &"))
        put_back = kept.settle()
        then = kept.run(asked(boot)).stdout
        off = "echo 0 > /sys/devices/system/cpu/cpu1/online"
        status = kept.run(asked(f"mkdir /new; mount -t tmpfs tmpfs /new; {off}")).status
        left = kept.settle()
        at_last = kept.run(asked(boot)).stdout
    finally:
        kept.close()

    assert put_back == ""
    assert then == at_first
    assert status == 0
    assert "cpus 0; cpus 0-1; mounts" in left
    assert len(at_first.splitlines()) == len(at_last.splitlines()) == 1
    assert at_last != at_first


def test_a_simulated_drive_answers_behind_each_bus(guest: Guest) -> None:
    small = "sim:dram-ssd-2012,capacity=64MiB"

    answer = guest(
        "sleep 1; lsblk -bdno NAME,SIZE,SERIAL; dd if=/dev/urandom of=/run/x bs=64k count=8 2>&1;"
        "for d in nvme0n1 sda vda; do dd if=/run/x of=/dev/$d bs=64k oflag=direct status=none;"
        "dd if=/dev/$d bs=64k count=8 iflag=direct status=none | cmp - /run/x && echo $d same;"
        "done",
        disks=(f"nvme={small}", f"ahci={small}", f"virtio={small}"),
        modules=False,
    )

    assert "SSDBENCH-LAB-0" in answer.stdout
    for device in ("nvme0n1", "sda", "vda"):
        assert f"{device} same" in answer.stdout
    assert answer.stdout.count(str(64 * 1024 * 1024)) == 3


def _lab_whose_qemu(first: str, folder: Path) -> Lab:
    """A lab whose QEMU begins with `first`; there $qemu is the true one, and $count these calls."""
    lab = Lab(Archive(cache()), "6.12")
    script = folder / "qemu"
    script.write_text(
        f"#!/bin/bash\nqemu={lab.tools.qemu}\necho >> {folder}/calls\n"
        f'count=$(wc -l < {folder}/calls)\n{first}\nexec "$qemu" "$@"\n'
    )
    script.chmod(0o755)
    lab.tools = replace(lab.tools, qemu=script)
    return lab


def test_a_boot_that_fails_in_any_way_is_repeated_before_the_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """QEMU ends in two ways, says nothing, and its kernel complains; the fifth boot is good."""
    monkeypatch.setattr("ssdbench.lab.guest.BOOTS", 5)
    monkeypatch.setattr("ssdbench.lab.guest.SILENT_S", 20.0)
    planted = 'set -- "${@/panic=-1/panic=-1 loglevel=7 WARNING:planted}"'
    lab = _lab_whose_qemu(
        "case $count in 1) echo assertion failed >&2; kill -ABRT $$ ;; 2) kill -SEGV $$ ;; "
        f"3) exec sleep 600 ;; 4) {planted} ;; esac",
        tmp_path,
    )

    answer = lab.run(["cat", "/proc/cmdline"], cwd=Path("/"), timeout_s=400)

    assert answer.status == 0
    assert "panic=-1" in answer.stdout and "planted" not in answer.stdout
    *ended, complained = answer.failed_boots
    assert ended == [
        "assertion failed", "QEMU was ended by signal 11", "the kernel said nothing for 20 s",
    ]  # fmt: skip
    assert "WARNING:planted" in complained


def test_a_qemu_that_fails_at_each_boot_is_given_up(tmp_path: Path) -> None:
    lab = _lab_whose_qemu("echo assertion failed >&2; kill -ABRT $$", tmp_path)

    with pytest.raises(HostLacks, match="did not finish the command: assertion failed"):
        lab.run(["true"], cwd=Path("/"), timeout_s=120)

    assert len((tmp_path / "calls").read_text()) == BOOTS


def test_a_command_under_which_qemu_fails_is_not_run_twice(tmp_path: Path) -> None:
    lab = _lab_whose_qemu(
        'job=$(grep -o "path=[^, ]*/console" <<< "$*"); job=${job#path=}; "$qemu" "$@" & '
        "until [ -s ${job%console}share/job/1/stdout ]; do sleep 0.1; done; "
        "kill -KILL $!; kill -ABRT $$",
        tmp_path,
    )

    with pytest.raises(HostLacks, match="did not finish the command: QEMU was ended by signal 6"):
        lab.run(["sh", "-c", "echo begun; sleep 60"], cwd=Path("/"), timeout_s=120)


@pytest.mark.parametrize("in_memory", [None, InMemory(("sh",))])
def test_what_the_kernel_said_of_a_boot_that_failed_is_handed_on(
    tmp_path: Path, in_memory: InMemory | None
) -> None:
    lab = _lab_whose_qemu(
        'file=$(grep -o "path=[^, ]*/console" <<< "$*"); echo no root > "${file#path=}"; exit 1',
        tmp_path,
    )
    seen: list[str] = []

    with pytest.raises(HostLacks, match="QEMU ended with 1"):
        lab.run(
            ["true"], cwd=Path("/"), timeout_s=120, in_memory=in_memory,
            while_running=lambda job: seen.append(text_of(job.parents[1] / "console")),
        )  # fmt: skip

    assert seen[-1] == "no root\n"


def test_kvm_is_not_doubted_for_a_guest_that_does_not_boot_without_it_either(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ssdbench.lab.session.KVM", tmp_path / "kvm")
    (tmp_path / "kvm").touch()
    lab = _lab_whose_qemu("[ -e ${0%/*}/mended ] || exit 1", tmp_path)
    lab._initramfs = tmp_path / "initramfs"  # beside which it is noted
    lab._initramfs.symlink_to(next(cache().glob(f"initramfs-{lab.kernel.release}-*.gz")))

    asked = Machine()
    works = lab.kvm_works()
    with pytest.raises(HostLacks):
        lab.run(["true"], machine=asked, cwd=Path("/"), timeout_s=120)
    noted = list(tmp_path.glob("kvm-*"))
    (tmp_path / "mended").touch()
    lab.run(["true"], machine=asked, cwd=Path("/"), timeout_s=300)

    assert not works
    assert noted == []
    assert [path.read_text() for path in tmp_path.glob("kvm-*")] == ["no"]


DIGITS = """
modprobe null_blk nr_devices=1 gb=1 irqmode=2 completion_nsec=20000 submit_queues=1
F=/sys/kernel/config/ssdb_flash/ssd0; mkdir $F
for pair in capacity_bytes=67108864 ftl=direct t_read_ns=60000 store=0; do
  echo ${pair#*=} > $F/${pair%%=*}; done; echo 1 > $F/power
for disk in nullb0 ssd0; do
  fio --name=r --filename=/dev/$disk --direct=1 --rw=randrw --bs=4k --ioengine=libaio --iodepth=8 \\
    --size=64m --time_based --runtime=300ms --minimal
  cat /sys/block/$disk/stat; done
cat /proc/uptime
"""


@pytest.mark.soak
def test_two_runs_from_memory_agree_to_the_last_digit(guest: Guest) -> None:
    """fio's latencies in ns, the kernel's counters, its log and clock, not a rate alone."""
    first, second = (
        guest(DIGITS + "dmesg\n", disks=(), reproducible=True, programs=("bash", "fio")).stdout
        for _ in range(2)
    )

    assert first == second
    assert len(first) > 500
