"""Test that damage to records is found, and that a cut-off last line is not damage."""

import json

from ssdbench.model import records

FIELDS = [{"n": n, "at": "2026-01-01", "kind": "run", "data": {"text": 'J*"{é'}} for n in range(3)]
TEXT = "".join(f"{records.line(fields)}\n" for fields in FIELDS).encode()


def test_what_was_stored_is_read_back_and_each_line_is_json() -> None:
    held = records.read(TEXT)

    assert [dict(line.fields) for line in held.lines] == FIELDS
    assert [line.number for line in held.lines] == [1, 2, 3]
    assert held.damaged == ()
    assert [json.loads(line)["n"] for line in TEXT.splitlines()] == [0, 1, 2]


def test_every_flipped_bit_is_seen_and_changes_no_other_record() -> None:
    for place in range(len(TEXT)):
        for bit in range(8):
            flipped = TEXT[:place] + bytes([TEXT[place] ^ 1 << bit]) + TEXT[place + 1 :]
            held = records.read(flipped)

            assert held.damaged, (place, bit)
            assert all(dict(line.fields) in FIELDS for line in held.lines), (place, bit)
            assert len(held.lines) >= 1


def test_a_cut_leaves_whole_records_and_a_torn_line_that_is_no_damage() -> None:
    for length in range(len(TEXT)):
        held = records.read(TEXT[:length])

        assert [dict(line.fields) for line in held.lines] == FIELDS[: TEXT[:length].count(b"\n")]
        assert held.damaged == ()


def test_older_lines_without_a_checksum_count_only_before_those_with_one() -> None:
    old = b'{"n":0,"kind":"run"}\n{"kind": "restored", "n": 3}\n'

    assert [line.number for line in records.read(old + TEXT).lines] == [1, 2, 3, 4, 5]
    assert records.read(TEXT + old).damaged == (4, 5)
