"""Test which parts of a profile a zoned drive cannot do."""

import pytest

from ssdbench.model.fitting import misfits
from ssdbench.model.loading import load_profile
from ssdbench.suite import export
from ssdbench.suite.request import RunRequest
from tests.support.builders import a_target

ZONED = a_target(zone_bytes=1 << 20)
WARM = "steady: {workload: {pattern: sequential, block: 128KiB}}\n"
FILL = "precondition: [{pattern: sequential, block: 128KiB, fill: 2}]\n"
ORDERED = "measure: [{sweep: {pattern: sequential}}]\n"


def said(text: str) -> dict[tuple[str | int, ...], str]:
    return dict(misfits(load_profile(text, "p.yaml"), ZONED))


def test_writes_in_order_and_reads_in_any_order_fit() -> None:
    measure = (
        "measure: [{sweep: {pattern: sequential, read: [0, 100], block: [4KiB, 1MiB]}},"
        " {sweep: {pattern: [random, sequential], read: 100, iodepth: 4}}]\n"
    )

    assert said(FILL + WARM + measure) == {}


@pytest.mark.parametrize(
    ("text", "path", "words"),
    [
        (FILL + ORDERED, ("steady", "workload"), "in order only, in the warm-up too"),
        (
            "precondition: [{pattern: random, block: 4KiB, fill: 1}]\n" + WARM + ORDERED,
            ("precondition", 0),
            "set `pattern: sequential`",
        ),
        (
            FILL + WARM + "measure: [{sweep: {read: [0, 100]}}]\n",
            ("measure", 0, "sweep", "pattern"),
            "in order only",
        ),
        (
            FILL + WARM + "measure: [{sweep: {pattern: sequential, read: 50}}]\n",
            ("measure", 0, "sweep", "read"),
            "cannot mix reads",
        ),
        (
            FILL + WARM + "measure: [{sweep: {pattern: sequential, numjobs: 2}}]\n",
            ("measure", 0, "sweep", "numjobs"),
            "wait for each other's zones",
        ),
        (  # fio locks a zone until a read of it ends
            FILL + WARM + "measure: [{sweep: {pattern: random, read: 100, numjobs: 4}}]\n",
            ("measure", 0, "sweep", "numjobs"),
            "wait for each other's zones",
        ),
        (
            FILL.replace("fill: 2", "fill: 1") + WARM + ORDERED,
            ("precondition", 0, "fill"),
            "set `fill: 2`",
        ),
        (
            FILL + WARM + "measure: [{sweep: {pattern: sequential, block: 12KiB}}]\n",
            ("measure", 0, "sweep", "block", 0),
            "do not fill a zone, which holds 1 MiB",
        ),
        (
            FILL + WARM + "measure: [{sweep: {pattern: sequential, block: 2MiB}}]\n",
            ("measure", 0, "sweep", "block", 0),
            "do not fill a zone, which holds 1 MiB",
        ),
        (
            FILL.replace("128", "96") + WARM + ORDERED,
            ("precondition", 0, "block"),
            "96 KiB do not fill",
        ),
        (
            FILL + WARM.replace("128", "96") + ORDERED,
            ("steady", "workload", "block"),
            "96 KiB do not fill",
        ),
        (
            FILL + WARM + "measure: [{sweep: {pattern: sequential, span: 50%}}]\n",
            ("measure", 0, "sweep", "span"),
            "as a whole",
        ),
        (
            FILL + WARM + "measure: [{blocksize: {}}]\n" + ORDERED.replace("measure: ", "#"),
            ("measure", 0, "blocksize"),
            "only sweeps",
        ),
        ("purge: format\n" + FILL + WARM + ORDERED, ("purge",), "cannot purge"),
        ("generator: slam\n" + FILL + WARM + ORDERED, ("generator",), "only fio"),
        ("host: {scheduler: none}\n" + FILL + WARM + ORDERED, ("host", "scheduler"), "scheduler"),
        ("fill_level: 50%\n" + FILL + WARM + ORDERED, ("fill_level",), "as a whole"),
    ],
)
def test_what_would_write_out_of_order_is_refused_where_it_stands(
    text: str, path: tuple[str | int, ...], words: str
) -> None:
    found = said(text)

    assert words in found[path]
    assert dict(misfits(load_profile(text, "p.yaml"), a_target())).get(path) is None


def test_blocks_beside_zones_may_be_left_out() -> None:
    sweep = "measure: [{sweep: {pattern: sequential, block: [12KiB, 64KiB], where_possible: true}}]"

    assert said(FILL + WARM + sweep) == {}


def test_zones_that_hold_less_than_their_length_count_by_what_they_hold(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    target = a_target(
        size_bytes=16 * 3 << 20, zone_bytes=3 << 20, zone_length_bytes=4 << 20,
    )  # fmt: skip
    text = FILL + WARM + "measure: [{sweep: {pattern: sequential, block: 1MiB}}]\n"
    profile = load_profile(text, "p.yaml")
    monkeypatch.setattr(export, "target_of", lambda wishes: target)

    found = export.exported(RunRequest(profile, "p.yaml", text))

    assert target.end_bytes == 64 << 20
    assert list(misfits(profile, target)) == []
    fill = found["01-precondition-1.fio"].splitlines()
    assert fill.count(f"size={64 << 20}") == 3  # [global], and each of two fills
    assert fill.count(f"io_size={48 << 20}") == 2


def test_exported_jobs_keep_to_the_zones(monkeypatch: pytest.MonkeyPatch) -> None:
    text = FILL + WARM + ORDERED
    monkeypatch.setattr(export, "target_of", lambda wishes: ZONED)

    found = export.exported(RunRequest(load_profile(text, "p.yaml"), "p.yaml", text))

    jobs = [job for name, job in found.items() if name.endswith(".fio")]
    assert len(jobs) >= 3
    assert all("zonemode=zbd" in job for job in jobs)
