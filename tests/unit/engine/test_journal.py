import json
import math
from collections.abc import Callable
from pathlib import Path

import pytest

from ssdbench.engine.journal import Journal, Kind, StageJournal, parse, sound
from ssdbench.errors import UsageError
from ssdbench.model import records


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A journal with three records."""
    path = tmp_path / "journal.jsonl"
    journal = Journal.create(path, now=lambda: "2026-01-01T00:00:00+00:00")
    stage = StageJournal(journal, "03-sweep", lambda kind: {"seconds": 5.0})
    journal.append(Kind.INTENDED, stage="03-sweep", data={"order": ["a/1"]})
    stage.begun("a/1", seed=7)
    stage.finished("a/1")
    journal.close()
    return path


def test_what_was_appended_is_read_back(path: Path) -> None:
    journal = Journal.open(path)

    assert [r.kind for r in journal.records] == [Kind.INTENDED, Kind.BEGUN, Kind.FINISHED]
    assert set(journal.finished("03-sweep")) == {"a/1"}
    assert journal.records[1].data == {"seed": 7, "seconds": 5.0}


def test_every_cut_of_the_last_line_loses_only_that_line(path: Path) -> None:
    text = path.read_bytes()
    start = text.rstrip(b"\n").rfind(b"\n") + 1

    for length in range(start, len(text)):
        assert len(parse(text[:length], path="journal.jsonl")) == 2


def test_a_record_after_a_torn_line_begins_a_line_of_its_own(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-9])

    journal = Journal.open(path)
    journal.append(Kind.RESUMED)
    journal.close()

    assert [r.kind for r in Journal.open(path).records] == [
        Kind.INTENDED,
        Kind.BEGUN,
        Kind.RESUMED,
    ]


def drop_first_line(text: bytes) -> bytes:
    return text.split(b"\n", 1)[1]


def drop_middle_line(text: bytes) -> bytes:
    lines = text.splitlines(keepends=True)
    return lines[0] + lines[2]


def spoil_middle_line(text: bytes) -> bytes:
    lines = text.splitlines(keepends=True)
    return lines[0] + b'{"n":1,"at\n' + lines[2]


@pytest.mark.parametrize("damage", [drop_first_line, drop_middle_line, spoil_middle_line])
def test_damage_anywhere_else_is_named_with_its_line(
    path: Path, damage: Callable[[bytes], bytes]
) -> None:
    path.write_bytes(damage(path.read_bytes()))

    with pytest.raises(UsageError, match=r"journal.jsonl:\d+:1: the journal is damaged"):
        Journal.open(path)


@pytest.mark.parametrize(
    "damage",
    [
        {"at": "soon"}, {"at": "0001-01-01T00:00:00+14:00"}, {"at": 5},
        {"data": {"seconds": "=1+1"}}, {"data": {"seconds": math.nan}},
        {"data": {"bytes_read": True}}, {"data": {"bytes_written": -1}},
        {"data": {"bytes_written": 0.5}},
    ],
)  # fmt: skip
def test_a_record_whose_values_nobody_writes_is_damaged_whatever_its_checksum(
    path: Path, damage: dict[str, object]
) -> None:
    lines = path.read_bytes().splitlines(keepends=True)
    fields = {**json.loads(lines[1]), **damage}
    del fields["crc32"]
    lines[1] = f"{records.line(fields)}\n".encode()

    assert sound(b"".join(lines)) == (parse(lines[0], path="journal.jsonl"), 2)


def test_a_directory_without_a_journal_is_no_run(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="is not a run directory"):
        Journal.open(tmp_path / "journal.jsonl")


def test_an_empty_journal_cannot_be_resumed(tmp_path: Path) -> None:
    (tmp_path / "journal.jsonl").write_bytes(b'{"n":0')

    with pytest.raises(UsageError, match="holds no record"):
        Journal.open(tmp_path / "journal.jsonl")


def test_every_flipped_bit_is_named(path: Path) -> None:
    text = path.read_bytes()

    for place in range(len(text)):
        for bit in range(8):
            flipped = text[:place] + bytes([text[place] ^ 1 << bit]) + text[place + 1 :]

            with pytest.raises(UsageError, match=r"journal.jsonl:\d+:1: the journal is damaged"):
                parse(flipped, path="journal.jsonl")


def test_a_journal_without_checksums_is_read_and_continued(path: Path) -> None:
    held = [json.loads(line) for line in path.read_text().splitlines()]
    lines = [{k: v for k, v in fields.items() if k != "crc32"} for fields in held]
    path.write_text("".join(json.dumps(fields, separators=(",", ":")) + "\n" for fields in lines))

    journal = Journal.open(path)
    journal.append(Kind.RESUMED)
    journal.close()

    assert [r.kind for r in Journal.open(path).records] == [
        Kind.INTENDED,
        Kind.BEGUN,
        Kind.FINISHED,
        Kind.RESUMED,
    ]
