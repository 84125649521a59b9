"""Published traces and CSV files are read by their columns, and the unit of their times is told."""

from pathlib import Path

import pytest

from ssdbench.cli.main import run
from ssdbench.generator.trace.forms import Trace
from ssdbench.generator.trace.source import TraceError
from ssdbench.generator.trace.summary import summarised
from ssdbench.model.profile.replay import Columns, TraceForm
from tests.unit.generator.trace.test_forms import rows

# Written after the description of each format; every trace has the same six requests.
MD5 = "0123456789abcdef" * 2
PUBLISHED = {
    "msr": (
        "128000000000000000,web,3,Read,4096,8192,100\n"
        "128000000000000001,web,3,Write,1048576,512,90\n"
        "128000000000150000,web,3,Read,0,65536,4000\n"
        "128000000010000000,web,3,Write,12288,4096,1\n"
        "128000000020000000,web,3,Write,16384,4096,1\n"
        "128000000600000000,web,3,Read,4096,4096,33\n"
    ),
    "alibaba": (
        "7,R,4096,8192,1577808000000000\n"
        "7,W,1048576,512,1577808000000000\n"
        "8,W,0,4096,1577808000000001\n"
        "7,R,0,65536,1577808000015000\n"
        "7,W,12288,4096,1577808001000000\n"
        "7,W,16384,4096,1577808002000000\n"
        "7,R,4096,4096,1577808060000000\n"
    ),
    "tencent": (
        "1538323200,8,16,0,12\n"
        "1538323200,2048,1,1,12\n"
        "1538323200,0,128,0,12\n"
        "1538323201,24,8,1,12\n"
        "1538323202,32,8,1,12\n"
        "1538323202,32,8,1,99\n"
        "1538323260,8,8,0,12\n"
    ),
    "fiu": (
        f"5000000000000 31 nfsd 8 16 R 6 0 {MD5}\n"
        f"5000000000100 31 nfsd 2048 1 W 6 0 {MD5}\n"
        f"5000015000000 32 two words 0 128 R 6 0 {MD5}\n"
        f"5001000000000 31 nfsd 24 8 W 6 0 {MD5}\n"
        f"5001500000000 31 nfsd 24 8 W 8 1 {MD5}\n"
        f"5002000000000 31 nfsd 32 8 W 6 0 {MD5}\n"
        f"5060000000000 31 nfsd 8 8 R 6 0 {MD5}\n"
    ),
    "spc": (
        "0,8,8192,r,0.551706\n"
        "0, 2048, 512, W, 0.551706, 0x123,a note\n"
        "0,0,65536,R,0.566706\n"
        "0,64,0,R,0.6\n"
        "1,64,512,R,0.7\n"
        "0,24,4096,w,1.551706\n"
        "0,32,4096,W,2.551706\n"
        "0,8,4096,R,60.551706\n"
    ),
    "midas": (
        "0.5 0 1 8192 0 \n"
        "0.5 1 256 512 0 \n"
        "0.515 0 0 65536 0\n"
        "1.5 1 3 4096 0\n"
        "2.5 1 4 4096 0\n"
        "60.5 0 1 4096 0\n"
    ),
}
STEP_NS = {"msr": 100, "fiu": 100}  # between the first two requests, where times are so fine
THIRD_NS = {"tencent": 0}
LEFT_OUT = {
    "alibaba": {"requests of other devices": 1},
    "tencent": {"requests of other devices": 1},
    "fiu": {"requests of other devices": 1},
    "spc": {"requests of other devices": 1, "requests of 0 bytes": 1},
}
BEGAN = {"msr": "2006-08-14 03:33:20", "alibaba": "2019-12-31 16:00:00",
         "tencent": "2018-09-30 16:00:00"}  # fmt: skip
PROFILE = """
target: sim:x25m-g2-160,capacity=256MiB
measure:
  - replay: {{file: {file}, {keys}}}
"""


def planned(directory: Path, file: str, keys: str) -> int:
    profile = directory / "it.yaml"
    profile.write_text(PROFILE.format(file=file, keys=keys))
    return run(["plan", str(profile)])


@pytest.mark.parametrize("form", PUBLISHED)
def test_a_published_trace_is_read_as_its_authors_describe_it(form: str, tmp_path: Path) -> None:
    path = tmp_path / "it"
    path.write_text(PUBLISHED[form])
    trace = Trace(path, TraceForm(form))
    second = 10**9

    assert rows(trace) == [
        (0, 4096, 8192, "r"),
        (STEP_NS.get(form, 0), 1048576, 512, "w"),
        (THIRD_NS.get(form, 15_000_000), 0, 65536, "r"),
        (second, 12288, 4096, "w"),
        (2 * second, 16384, 4096, "w"),
        (60 * second, 4096, 4096, "r"),
    ]
    told = summarised(trace)
    assert told.left_out == LEFT_OUT.get(form, {})
    assert (told.form, told.time_unit_from, told.time_unit_doubt) == (form, "published", "")
    assert (told.began and f"{told.began:%Y-%m-%d %H:%M:%S}") == BEGAN.get(form)


@pytest.mark.parametrize("form", [form for form in PUBLISHED if form != "midas"])
def test_a_published_trace_is_recognized_and_replayed(
    form: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "it"
    path.write_text(PUBLISHED[form])

    assert summarised(Trace(path)).form == form
    assert planned(tmp_path, "it", f"form: {form}") == 0
    plan = " ".join(capsys.readouterr().out.split())
    assert "6 requests, 50 % reads, 1 min 00 s" in plan and ", as published" in plan


def test_five_numbers_are_not_taken_for_a_form_that_nobody_named(tmp_path: Path) -> None:
    path = tmp_path / "it"
    path.write_text(PUBLISHED["midas"])

    with pytest.raises(TraceError, match="a known published trace") as told:
        summarised(Trace(path))
    assert "form: csv" in told.value.hint


@pytest.mark.parametrize("form", PUBLISHED)
def test_a_truncated_or_garbled_line_of_a_published_trace_is_refused_with_its_number(
    form: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "it"
    good = PUBLISHED[form].splitlines(keepends=True)
    for number, line, why in (
        (len(good), good[-1][:-3], "the file ends within a line"),
        (2, good[1][:9] + "\n", "cells, but a trace of form"),
        (2, good[1].replace("512", "51x").replace("2048", "20x8"), "not a possible whole number"),
        (1, "x" + good[0] if form in ("tencent", "midas") else good[0].replace(
            "R" if "R" in good[0] else "r", "Q"), "not a "),
    ):  # fmt: skip
        path.write_text("".join([*good[: number - 1], line, *good[number:]]))

        with pytest.raises(TraceError, match=why) as told:
            summarised(Trace(path, TraceForm(form)))
        assert told.value.line == number
        assert planned(tmp_path, "it", f"form: {form}") == 2
        assert f"it:{number}: " in capsys.readouterr().err


def test_a_line_of_names_before_a_published_trace_is_left_out_and_counted(tmp_path: Path) -> None:
    path = tmp_path / "it"
    path.write_text("device_id,opcode,offset,length,timestamp\n" + PUBLISHED["alibaba"])

    told = summarised(Trace(path, TraceForm.ALIBABA))

    assert (told.requests, told.left_out["lines of column names"]) == (6, 1)


def test_a_garbled_line_of_another_device_is_refused_too(tmp_path: Path) -> None:
    path = tmp_path / "it"
    path.write_text(PUBLISHED["alibaba"].replace("8,W,0,", "8,W,?,"))

    with pytest.raises(TraceError, match="the offset '.' is not") as told:
        summarised(Trace(path))
    assert told.value.line == 3


def test_one_word_for_reads_and_writes_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert planned(tmp_path, "it", "columns: {read: 0, write: 0}") == 2
    assert "'0' is also the word for a read" in capsys.readouterr().err


def test_another_device_of_a_published_trace_can_be_chosen(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "it"
    path.write_text(PUBLISHED["alibaba"])

    assert rows(Trace(path, device="8")) == [(0, 0, 4096, "w")]
    assert run(["trace", str(path)]) == 0
    assert "7 (6), 8 (1)" in capsys.readouterr().out
    with pytest.raises(TraceError, match="no request .7 requests of other devices"):
        summarised(Trace(path, device="9"))
    path.write_text("time,offset,size,op\n1,0,512,r\n")
    with pytest.raises(TraceError, match="needs the column of the device"):
        summarised(Trace(path, device="9"))


def test_a_trace_of_whole_seconds_is_told_and_warned_about(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "it"
    path.write_text("".join(f"{1538323200 + n // 4},{8 * n},8,{n % 2},5\n" for n in range(400)))

    assert summarised(Trace(path)).time_step_s == 1
    assert planned(tmp_path, "it", "form: tencent") == 0
    plan = " ".join(capsys.readouterr().out.split())
    assert "whole steps of 1 s: a replay sends all requests of a step at once" in plan
    path.write_text("".join(f"{1538323200 + n},{8 * n},8,{n % 2},5\n" for n in range(400)))
    assert summarised(Trace(path)).time_step_s is None


def test_columns_can_be_given_by_number_and_separated_by_blanks(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "it"
    path.write_text("sda 8 1 0.25 0\nsda 16 2 0.75 1\nsdb 0 8 0.8 1\n")
    columns = Columns.model_validate(
        {"time": 4, "offset": 2, "size": 3, "op": 5, "device": 1, "read": 0, "write": 1,
         "offset_unit": "sectors", "size_unit": "sectors"}
    )  # fmt: skip

    assert rows(Trace(path, columns=columns)) == [
        (0, 4096, 512, "r"), (500_000_000, 8192, 1024, "w")
    ]  # fmt: skip
    numbers = ["time=4", "offset=2", "size=3", "op=5", "read=0", "write=1"]
    given = [word for number in numbers for word in ("--column", number)]
    assert run(["trace", str(path), "--format", "csv", *given]) == 0
    assert "assumed" in capsys.readouterr().out
    keys = "columns: {time: 4, offset: 2, size: 3, op: 5, read: 0, write: 1}"
    assert planned(tmp_path, "it", keys) == 0
    assert "times in s, assumed" in " ".join(capsys.readouterr().out.split())


@pytest.mark.parametrize(
    ("first", "unit"),
    [(1_577_808_000, "s"), (1_577_808_000_000, "ms"), (1_577_808_000_000_000, "us"),
     (132_222_816_000_000_000, "100ns"), (1_577_808_000_000_000_000, "ns")],
)  # fmt: skip
def test_the_unit_of_the_times_is_guessed_from_a_date(
    first: int, unit: str, tmp_path: Path
) -> None:
    path = tmp_path / "it.csv"
    path.write_text(f"time,offset,size,op\n{first},0,512,r\n{first + 2},0,512,w\n")

    told = summarised(Trace(path))

    assert (told.time_unit, told.time_unit_from) == (unit, "date")
    assert told.began is not None and told.began.year in (2019, 2020)
    steps = {"s": 1, "ms": 1e-3, "us": 1e-6, "100ns": 1e-7, "ns": 1e-9}
    assert told.seconds == pytest.approx(2 * steps[unit])


def test_a_wrong_unit_of_the_times_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "it.csv"

    def lasting(ticks: int, unit: str) -> Trace:
        path.write_text(f"time,offset,size,op\n7,0,512,r\n{7 + ticks},0,512,w\n")
        return Trace(path, columns=Columns.model_validate({"time_unit": unit}))

    with pytest.raises(TraceError, match=r"times in s \(assumed\), .* 3650 d 0 h after") as told:
        summarised(lasting(3650 * 86_400, "auto"))
    assert told.value.line == 3 and "3 d 15 h in ms, 5 min 15 s in us" in told.value.hint
    assert "lasts only 0.003 s" in summarised(lasting(3_000_000, "ns")).time_unit_doubt
    assert "spread over 11 h" in summarised(lasting(40_000, "s")).time_unit_doubt
    assert summarised(lasting(3, "s")).time_unit_doubt == ""
    path.write_text(PUBLISHED["msr"])
    numbers = {"time": 1, "op": 4, "offset": 5, "size": 6, "time_unit": "us"}
    told_of = summarised(Trace(path, columns=Columns.model_validate(numbers)))
    assert "in 100ns the first time would be a date" in told_of.time_unit_doubt
    lasting(3_000_000, "ns")
    assert planned(tmp_path, "it.csv", "columns: {time_unit: ns}") == 0
    plan = " ".join(capsys.readouterr().out.split())
    assert (
        "times of the trace may have another unit: in ns the whole trace lasts only 0.003 s" in plan
    )
    path.write_text(PUBLISHED["tencent"].replace("1538323", "38323"))
    assert "not a date in s" in summarised(Trace(path, TraceForm.TENCENT)).time_unit_doubt
