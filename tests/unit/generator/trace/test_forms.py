"""Every form of a trace tells the same requests, and what is wrong has its line."""

import gzip
import random
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from ssdbench.errors import UsageError
from ssdbench.generator.trace import source
from ssdbench.generator.trace.forms import Trace
from ssdbench.generator.trace.source import Chunk, TraceError
from ssdbench.generator.trace.summary import summarised
from ssdbench.model.profile.replay import Columns
from ssdbench.report.view.replays import trace_facts
from tests.unit.generator.trace import traces

FORMS: dict[str, Callable[[Path], Path]] = {
    "iolog": traces.iolog,
    "blktrace": traces.blktrace,
    "blktrace, big endian": lambda path: traces.blktrace(path, order=">"),
    "blkparse": traces.blkparse,
    "csv": traces.csv,
}


def rows(trace: Trace) -> list[traces.Request]:
    return [
        (int(ns), int(offset), int(size), "rwdf"[op])
        for chunk in trace.chunks()
        for ns, offset, size, op in zip(
            chunk.time_ns, chunk.offset_bytes, chunk.size_bytes, chunk.op, strict=True
        )
    ]


@pytest.mark.parametrize("form", FORMS)
def test_every_form_tells_the_same_requests(
    form: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(source, "ROWS", 2)

    assert rows(Trace(FORMS[form](tmp_path / "it"))) == list(traces.REQUESTS)


def test_records_are_read_the_same_wherever_the_pieces_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = traces.blktrace(tmp_path / "it")
    for size in (49, 100, 777):
        monkeypatch.setattr("ssdbench.generator.trace.forms._BUFFER", size)

        assert rows(Trace(path)) == list(traces.REQUESTS)


def test_what_is_left_out_is_counted_and_names_are_dropped_unless_asked_for(tmp_path: Path) -> None:
    binary = summarised(Trace(traces.blktrace(tmp_path / "a")))
    text = summarised(Trace(traces.blkparse(tmp_path / "b")))
    named = summarised(Trace(tmp_path / "b", keep_names=True))

    assert binary.left_out == {
        "records of other events": 12, "requests of other devices": 6
    }  # fmt: skip
    assert text.left_out == {"records of other events": 6, "lines that are not events": 2}
    assert (text.by_process, named.by_process) == ({}, {"postgres": 6})


def test_the_file_of_one_cpu_of_several_is_refused(tmp_path: Path) -> None:
    for cpu in range(3):
        (tmp_path / f"sda.blktrace.{cpu}").write_bytes(traces.queued([cpu] * 5))

    with pytest.raises(TraceError, match="file of CPU 1 only, and 3 such files are here") as told:
        summarised(Trace(tmp_path / "sda.blktrace.1"))

    assert "`blkparse -i sda -O -d sda.bin`" in told.value.hint
    for cpu in (0, 1):
        (tmp_path / f"sda.blktrace.{cpu}").unlink()
    with pytest.raises(TraceError, match="the files of other CPUs are missing"):
        summarised(Trace(tmp_path / "sda.blktrace.2"))
    for cpu in (0, 1):
        (tmp_path / f"sda.blktrace.{cpu}").touch()  # of CPUs that had nothing to do
    assert summarised(Trace(tmp_path / "sda.blktrace.2")).only_cpu == 2


def test_a_trace_of_one_cpu_under_another_name_is_told(tmp_path: Path) -> None:
    one, both = tmp_path / "one", tmp_path / "both"
    one.write_bytes(traces.queued([3] * 5))
    both.write_bytes(traces.queued([0, 1, 0, 1]))

    assert summarised(Trace(one)).only_cpu == 3
    assert summarised(Trace(both)).only_cpu is None
    assert summarised(Trace(traces.blkparse(tmp_path / "text"))).only_cpu == 3
    assert summarised(Trace(traces.csv(tmp_path / "csv"))).only_cpu is None
    facts = dict(trace_facts(summarised(Trace(one))))
    assert "a part of the load" in facts["CPUs that sent requests"]


def test_events_that_were_lost_are_told(tmp_path: Path) -> None:
    text = traces.blkparse(tmp_path / "text")
    with text.open("a") as file:
        file.write("Events (8,16): 12 entries\nSkips: 2 forward (1,234 -  99.0%)\n")
    holes = tmp_path / "holes"
    holes.write_bytes(traces.queued([0, 1, 0, 1, 1], [1, 1, 2, 4, 7]))
    whole = tmp_path / "whole"
    whole.write_bytes(traces.queued([0, 1, 0, 1, 1]))

    told = summarised(Trace(text))
    assert (told.lost, round(told.lost_share, 3)) == (1234, round(1234 / 1246, 3))
    assert (summarised(Trace(holes)).lost, summarised(Trace(whole)).lost) == (4, 0)
    facts = dict(trace_facts(told))
    assert facts["Lost events"] == "1,234, 99 % of all traced events"


def test_an_iolog_of_version_2_has_waits_and_no_arrivals(tmp_path: Path) -> None:
    trace = Trace(traces.iolog(tmp_path / "it", version=2))
    summary = summarised(trace)

    assert (summary.timed, summary.form, summary.mean_iops) == (False, "iolog v2", None)
    assert [ns for ns, *_ in rows(trace)] == [0, 10**6, 10**6, 2 * 10**6, 9 * 10**6, 2500 * 10**6]


def test_sync_file_range_of_an_iolog_is_left_out_and_counted(tmp_path: Path) -> None:
    path = tmp_path / "it"
    path.write_text(
        "fio version 3 iolog\n0 d add\n1 d write 0 4096\n2 d sync_file_range 0 4096\n"
        "3 d write 4096 4096\n"
    )
    trace = Trace(path)

    assert [row[1] for row in rows(trace)] == [0, 4096]
    assert trace.left_out["sync_file_range, which a drive does not receive"] == 1


def test_listed_files_of_an_iolog_lie_one_behind_another(tmp_path: Path) -> None:
    path = tmp_path / "it"
    path.write_text(
        f"{V3}1 b add\n5 b read 4096 512\n6 c write 0 512\n7 a write 2097152 512\n8 b trim 0 512\n"
    )
    trace = Trace(path, files=("a", "b"))

    assert rows(trace) == [
        (0, (4 << 20) + 4096, 512, "r"), (2000, 2 << 20, 512, "w"), (3000, 4 << 20, 512, "d")
    ]  # fmt: skip
    assert trace.left_out["requests of files that are not listed"] == 1
    with pytest.raises(TraceError, match="no request to the file 'd'; it has 'b', 'c', 'a'"):
        list(Trace(path, files=("d",)).chunks())
    with pytest.raises(TraceError, match="this trace is not"):
        list(Trace(traces.csv(tmp_path / "csv"), files=("a",)).chunks())


def test_columns_may_have_other_names_and_units(tmp_path: Path) -> None:
    path = tmp_path / "it.csv"
    path.write_text('"ts",lba,len,rw\n5.25,8,8,READ\n"7",16,1,w\n')
    columns = Columns(time="ts", offset="lba", size="len", op="rw", time_unit="ms",
                      offset_unit="sectors", size_unit="sectors")  # fmt: skip

    assert rows(Trace(path, columns=columns)) == [
        (0, 4096, 4096, "r"), (1_750_000, 8192, 512, "w")
    ]  # fmt: skip


V3 = "fio version 3 iolog\n0 d add\n"
CSV = "time,offset,size,op\n"
TEXT = "8,0 1 1 0.1 7 Q R 8 + 8 [x]\n"
WRONG = {
    "empty": (b"", 0, "empty"),
    "gzipped": (gzip.compress(b"fio version 3 iolog\n"), 0, "compressed (gzip)"),
    "nothing that is known": (b"hello\nworld\n", 1, "not an iolog"),
    "a second log": (
        b"fio version 3 iolog\n0 d add\n1 d read 0 512\nfio version 3 iolog\n",
        4,
        "a second log begins here",
    ),
    "another version": (b"fio version 9 iolog\n0 d read 0 1\n", 1, "iolog of version 2 or 3"),
    "no request": (V3.encode(), 0, "holds no request"),
    "cut off": ((V3 + "5 d read 0 40").encode(), 3, "cut off"),
    "too few words": ((V3 + "5 d read 0\n").encode(), 3, "5 words"),
    "backwards": ((V3 + "5 d read 0 512\n4 d read 0 512\n").encode(), 4, "request before it"),
    "no number": ((V3 + "5 d read -1 512\n").encode(), 3, "offset"),
    "beyond any drive": ((V3 + f"5 d read {2**63} 512\n").encode(), 3, "offset"),
    "0 bytes": ((V3 + "5 d read 0 0\n").encode(), 3, "0 bytes"),
    "too large": ((V3 + f"5 d read 0 {65 << 20}\n").encode(), 3, "64 MiB"),
    "a wrong action": ((V3 + "5 d erase 0 512\n").encode(), 3, "'erase'"),
    "a second file": ((V3 + "5 d read 0 512\n6 e read 0 512\n").encode(), 4, "second file"),
    "a line without end": (V3.encode() + b"5" * 70_000 + b"\n", 3, "65536 bytes"),
    "41 days": ((V3 + f"0 d read 0 512\n{41 * 86400 * 10**6} d read 0 512\n").encode(), 4, "40 d"),
    "a time beyond all clocks": ((V3 + f"{2**61} d read 0 512\n").encode(), 3, "time"),
    "a wait beyond all clocks": (
        f"fio version 2 iolog\nd wait {2**61} 0\nd read 0 512\n".encode(), 2, "wait",
    ),
    "a huge trim": ((V3 + f"5 d trim 0 {2**61}\n").encode(), 3, "trim"),
    "cut within a record": (traces.records()[:-10], 24, "within a record"),
    "no record": (traces.records()[:56] + b"x" * 100, 2, "not a record of blktrace"),
    "an unknown kind": (TEXT.replace("R", "X").encode(), 1, "'X'"),
    "no sector": ((TEXT + "8,0 1 1 0.2 7 Q R\n").encode(), 2, "sector"),
    "a wrong time": (TEXT.replace("0.1", "0,1").encode(), 1, "time '0,1'"),
    "an unknown column": (b"when,offset,size,op\n1,0,512,r\n", 1, "no column 'time'"),
    "a column twice": (b"time,time,offset,size,op\n1,1,0,512,r\n", 1, "'time' twice"),
    "too few cells": ((CSV + "1,0,512\n").encode(), 2, "3 cells"),
    "an unknown op": ((CSV + "1,0,512,z\n").encode(), 2, "'z'"),
    "a quote that stays open": ((CSV + '1,0,512,"r\n').encode(), 2, "not CSV"),
    "a negative time": ((CSV + "-1,0,512,r\n").encode(), 2, "time"),
    "no text": (CSV.encode() + b"1,0,512,\xff\n", 2, "not CSV"),
}  # fmt: skip


@pytest.mark.parametrize("case", WRONG)
def test_what_is_wrong_is_told_with_file_and_line(case: str, tmp_path: Path) -> None:
    data, line, why = WRONG[case]
    path = tmp_path / "it"
    path.write_bytes(data)

    with pytest.raises(TraceError) as told:
        summarised(Trace(path))

    where = f"{path}:{line}: " if line else f"{path}: "
    assert told.value.message.startswith(where) and why in told.value.message
    assert told.value.exit_code == 2 and "\n" not in told.value.message


@pytest.mark.parametrize("name", ["/dev/null", "/proc/self/mem", ".", "missing", "a\0b"])
def test_what_is_no_file_is_refused_and_never_hangs(name: str) -> None:
    with pytest.raises(UsageError):
        summarised(Trace(Path(name)))


@pytest.mark.parametrize("form", FORMS)
def test_damaged_traces_are_read_or_refused_and_nothing_else(form: str, tmp_path: Path) -> None:
    chance = random.Random(form)
    path = FORMS[form](tmp_path / "it")
    sound = path.read_bytes()
    refused = 0
    for _ in range(150):
        data = bytearray(sound)
        for _ in range(chance.randrange(1, 4)):
            at = chance.randrange(len(data))
            match chance.randrange(4):
                case 0:
                    data[at] = chance.randrange(256)
                case 1:
                    del data[at : at + chance.randrange(1, 30)]
                case 2:
                    data[at:at] = bytes([chance.choice(b'09,-. \n\xff"Q')]) * 20
                case _:
                    del data[at:]
            data = data or bytearray(b"x")
        path.write_bytes(bytes(data))
        try:
            summary = summarised(Trace(path))
        except TraceError as error:
            refused += 1
            assert "\n" not in error.message
        else:
            assert 0 < summary.requests <= 30 and summary.ends_at_bytes >= 0
    assert 20 < refused < 150


def test_a_summary_knows_what_was_planted(tmp_path: Path) -> None:
    chance = np.random.default_rng(5)
    number, blocks = 20_000, 3_000
    block = chance.integers(0, blocks, number)
    block[: number // 2] = chance.integers(0, blocks // 100, number // 2)  # half to 1 %
    at = np.cumsum(chance.exponential(1e9 / 1000, number)).astype(np.int64)
    path = tmp_path / "it"
    traces.iolog(path, [(int(a), int(b) * 4096, 4096, "rw"[i % 4 == 0])
                        for i, (a, b) in enumerate(zip(at, block, strict=True))])  # fmt: skip

    told = summarised(Trace(path))

    assert (told.reads, told.writes, told.sizes) == (15_000, 5_000, {4096: 20_000})
    assert told.touched_bytes == len(np.unique(block)) * 4096
    assert told.written_bytes_distinct == len(np.unique(block[::4])) * 4096
    assert told.hottest_share[1] == pytest.approx(0.505 * 29 / 30, abs=0.01)  # 29 of 30
    assert told.reused_share == pytest.approx(1 - len(np.unique(block)) / number)
    assert told.mean_iops == pytest.approx(1000, rel=0.03)
    assert told.dispersion_1s == pytest.approx(1, abs=0.7)
    assert told.gap_variation == pytest.approx(1, abs=0.05)
    follows = sum(block[i] - 1 in block[max(0, i - 16) : i] for i in range(number))
    assert (told.sequential_share, told.unaligned_share) == (follows / number, 0)


def test_chunks_are_as_they_were_told() -> None:
    chunk = Chunk.of([(1, 2, 3, 0, 5), (2, 3, 4, 1, 6)])

    assert list(chunk.where(chunk.op == 1).line) == [6] and len(chunk) == 2
