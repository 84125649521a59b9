"""fio jobs of users, rewritten for the simulated drive: nothing changes its meaning in silence."""

import pytest

from ssdbench.errors import UsageError
from ssdbench.generator.fio.userjobs import command_line, for_simulated_drive, job_file

OF_LIBAIO = frozenset({"userspace_reap", "nowait"})


def engine_options(engine: str) -> frozenset[str]:
    return OF_LIBAIO if engine == "libaio" else frozenset()


def rewritten(text: str) -> tuple[dict[str, list[str]], tuple[str, ...]]:
    """The options of each section behind the first, which is ours; and what was changed."""
    file = for_simulated_drive(job_file(text, path="j.fio"), engine_options=engine_options)
    parts = file.text.split("\n\n")[1:]
    options = {part.split("]")[0][1:]: part.strip().split("\n")[1:] for part in parts}
    return options, file.changes


def test_a_job_file_is_read_as_fio_reads_it() -> None:
    text = "; a comment\n[global]\n  bs = 4k ; behind\n\n# another\n[one]\nthread\nsize=20%#x\n"

    first, second = job_file(text, path="j.fio")

    assert [(o.name, o.value, o.place) for o in first.options] == [("bs", "4k", "j.fio:3")]
    assert (second.name, [str(o) for o in second.options]) == ("one", ["thread", "size=20%"])


def test_what_a_job_measures_stays_as_it_is() -> None:
    options, changes = rewritten("[a]\nioengine=nbd\nrw=randrw\nrwmixread=70\nbs=8k\niodepth=16")

    assert options["a"] == ["rw=randrw", "rwmixread=70", "bs=8k", "iodepth=16"]
    assert changes == ()


def test_the_engine_reaches_the_drive_whatever_the_user_chose() -> None:
    file = for_simulated_drive(
        job_file("[global]\nioengine=io_uring\nuri=nbd://elsewhere\n[a]\nrw=read", path="j.fio"),
        engine_options=engine_options,
    )

    head = file.text.split("\n\n")[0].split("\n")
    assert head == ["[global]", "ioengine=nbd", "uri=sim:", "thread=1", "clocksource=clock_gettime"]
    assert "elsewhere" not in file.text.split("\n\n", 1)[1]
    assert any("j.fio:2: ioengine=io_uring is replaced by nbd" in change for change in file.changes)
    assert any(
        "j.fio:3: uri=nbd://elsewhere is replaced by sim:" in change for change in file.changes
    )


@pytest.mark.parametrize("engine", ["psync", "sync", "pvsync2", "mmap", "sg"])
def test_a_synchronous_engine_has_one_request_in_flight(engine: str) -> None:
    options, changes = rewritten(f"[global]\niodepth=32\n[a]\nioengine={engine}\nrw=randread")

    assert options["a"] == ["rw=randread", "iodepth=1"]
    assert (
        f"[a]: iodepth=32 is replaced by 1, because {engine} has only one request in flight"
        in changes
    )


def test_without_an_engine_fio_would_take_a_synchronous_one() -> None:
    options, changes = rewritten("[a]\niodepth=64\nrw=write")

    assert options["a"][-1] == "iodepth=1"
    assert changes == (
        "[a]: iodepth=64 is replaced by 1, because psync has only one request in flight",
    )


def test_a_global_engine_and_depth_hold_for_the_sections_behind_it_only() -> None:
    options, _ = rewritten(
        "[a]\nrw=read\n[global]\nioengine=libaio\niodepth=8\n[b]\nrw=read\n[c]\niodepth=2"
    )

    assert (options["a"], options["b"], options["c"]) == (
        ["rw=read", "iodepth=1"],
        ["rw=read", "iodepth=8"],
        ["iodepth=2"],
    )


@pytest.mark.parametrize(
    ("option", "said"),
    [
        ("filename=/dev/sdb", "all jobs use the drive"),
        ("directory=/mnt", "all jobs use the drive"),
        ("nrfiles=8", "all jobs use the drive"),
        ("direct=0", "without a page cache"),
        ("buffered=1", "without a page cache"),
        ("thread=0", "thread=0 is replaced by 1"),
        ("clocksource=cpu", "clocksource=cpu is replaced by clock_gettime"),
        ("userspace_reap", "nbd does not know it"),
        ("sync=1", "would answer later"),
    ],
)
def test_what_cannot_be_as_written_is_left_out_and_said(option: str, said: str) -> None:
    options, changes = rewritten(f"[a]\nioengine=libaio\nrw=read\n{option}")

    assert options["a"] == ["rw=read"]
    assert [change for change in changes if change.startswith("j.fio:4: ") and said in change]


@pytest.mark.parametrize(
    ("option", "reason"),
    [
        ("prio=3", "no priorities"),
        ("cmdprio_percentage=10", "no priorities"),
        ("hipri", "has no polling"),
        ("sqthread_poll=1", "has no polling"),
        ("zonemode=zbd", "no zones"),
        ("exec_prerun=echo x", "real time"),
        ("gtod_cpu=1", "old times in virtual time"),
        ("io_submit_mode=offload", "crashes"),
        ("read_iolog=trace.log", "files of its own"),
        ("ioengine=null", "does not access a block device"),
        ("ioengine=external:/tmp/x.so", "does not access a block device"),
    ],
)
def test_what_would_lose_its_meaning_is_refused_with_its_line(option: str, reason: str) -> None:
    with pytest.raises(UsageError, match=reason) as refused:
        rewritten(f"[a]\nrw=read\n{option}")

    assert str(refused.value).startswith("j.fio:3: ")


@pytest.mark.parametrize("option", ["hipri=0", "sqthread_poll=0", "zonemode=none", "prio=0"])
def test_what_is_switched_off_is_not_refused(option: str) -> None:
    rewritten(f"[a]\nrw=read\n{option}")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("rw=read\n", "j.fio:1: 'rw=read' stands before the first section"),
        ("[a]\ninclude other.fio\n", "j.fio:2: include is not supported"),
    ],
)
def test_what_is_no_job_file_is_refused_with_its_line(text: str, said: str) -> None:
    with pytest.raises(UsageError) as refused:
        job_file(text, path="j.fio")

    assert str(refused.value).startswith(said)


def test_a_command_line_is_a_job_file_in_other_words() -> None:
    asked = command_line(
        ["--bs=4k", "--output", "o.json", "--name=a", "--rw", "read", "--time_based", "--name", "b"]
    )

    everywhere, first, second = asked.sections
    assert (everywhere.name, str(everywhere.options[0])) == ("global", "bs=4k")
    assert (first.name, [str(o) for o in first.options]) == ("a", ["rw=read", "time_based"])
    assert (second.name, second.options) == ("b", [])
    assert (asked.general, asked.files, asked.question) == (("--output=o.json",), (), False)


def test_job_files_and_questions_are_told_from_jobs() -> None:
    assert command_line(["a.fio", "--section=x", "-"]).files == ("a.fio", "-")
    assert command_line(["--enghelp=libaio"]).question


@pytest.mark.parametrize(
    "option", ["--server", "--client=host", "--daemonize=pid", "--idle-prof=percpu"]
)
def test_what_would_run_outside_of_virtual_time_is_refused(option: str) -> None:
    with pytest.raises(UsageError, match=option.partition("=")[0]):
        command_line([option])


def test_a_job_that_verifies_asks_for_a_drive_that_keeps_data() -> None:
    def verifies(option: str) -> bool:
        sections = job_file(f"[a]\n{option}", path="j.fio")
        return for_simulated_drive(sections, engine_options=engine_options).verifies

    assert verifies("verify=crc32c")
    assert not verifies("verify=0")
