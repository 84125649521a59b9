"""Foreign text: what a terminal or a spreadsheet would act on does not get out."""

import json
import os
import socket
from pathlib import Path

import pytest

from ssdbench.foreign import MOST_SHOWN, brief, cell, holds_huge_number, lines, open_own, plain


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a\x1b[2Jb", r"a\x1b[2Jb"),
        ("a\rb\x07\x00\t", r"a\rb\x07\x00\t"),
        ("a\nb", r"a\nb"),
        ("\x9b31m\x7f", r"\x9b31m\x7f"),
        ("gpj\u202eexe", r"gpj\u202eexe"),
        ("a\u2028b", r"a\u2028b"),
        ("half \ud800", r"half \ud800"),
        ("Größe µs … 4 KiB", "Größe µs … 4 KiB"),
    ],
)
def test_a_value_loses_what_a_terminal_acts_on(text: str, shown: str) -> None:
    assert plain(text) == shown
    plain(text).encode()


def test_lines_stay_lines() -> None:
    assert lines("a\n\x1b[1mb\n") == "a\n\\x1b[1mb\n"


def test_what_is_too_long_keeps_its_ends() -> None:
    shown = brief("a" * 5000 + "z" * 5000, 100)

    assert shown.startswith("a" * 75 + "…") and shown.endswith("…" + "z" * 25)
    assert "9,900 characters left out" in shown
    assert len(plain("x" * 10**6)) < MOST_SHOWN + 100


@pytest.mark.parametrize(
    ("text", "stored"),
    [
        ("=1+1", "'=1+1"),
        ("+cmd|' /C calc'!A0", "'+cmd|' /C calc'!A0"),
        ("-2+3", "'-2+3"),
        ("@SUM(A1)", "'@SUM(A1)"),
        (" =1", "' =1"),
        ("\t=1", r"'\t=1"),
        ("\r=1", r"'\r=1"),
        ("-5", "-5"),
        ("+1.5e-3", "+1.5e-3"),
        ("-", "-"),
        ("a=1", "a=1"),
        ("", ""),
    ],
)
def test_a_cell_is_no_formula_and_numbers_stay_numbers(text: str, stored: str) -> None:
    assert cell(text) == stored


FLAGS = (os.O_WRONLY | os.O_TRUNC, os.O_WRONLY | os.O_APPEND, os.O_RDWR)


@pytest.mark.timeout(60)
@pytest.mark.parametrize("flags", FLAGS)
@pytest.mark.parametrize("kind", ["link", "dangling", "second name", "pipe", "socket", "directory"])
def test_what_was_put_in_the_place_of_a_file_is_not_written(
    tmp_path: Path, kind: str, flags: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)  # names of sockets are short
    path, precious = Path("file"), Path("precious")
    precious.write_text("mine")
    match kind:
        case "link":
            path.symlink_to(precious)
        case "dangling":
            path.symlink_to("new")
        case "second name":
            path.hardlink_to(precious)
        case "pipe":
            os.mkfifo(path)
        case "socket":
            with socket.socket(socket.AF_UNIX) as end:
                end.bind(str(path))
        case _:
            path.mkdir()

    with pytest.raises(OSError, match="file"):
        open_own(path, flags)

    assert precious.read_text() == "mine"
    assert not Path("new").exists()


@pytest.mark.parametrize("flags", FLAGS)
def test_a_file_of_our_own_is_made_or_written_again(tmp_path: Path, flags: int) -> None:
    path = tmp_path / "file"

    for text in ("longer", "next"):
        with os.fdopen(open_own(path, flags), "w") as file:
            file.write(text)

    expected = {FLAGS[0]: "next", FLAGS[1]: "longernext", FLAGS[2]: "nexter"}
    assert path.read_text() == expected[flags]


@pytest.mark.parametrize(
    ("text", "huge"),
    [
        (b'{"a": 18446744073709551616, "b": -0.12345678901234567}', False),
        (b'{"a": ' + b"9" * 31 + b"}", True),
        (b'{"a": [1,-' + b"9" * 400 + b"]}", True),
        (b'{"a": "' + b"9" * 400 + b'"}', False),
        (b'{"a\\"": "\\\\", "b\\\\": ' + b"9" * 400 + b"}", True),
        (b'{"a": "\\", ' + b"9" * 400 + b'"}', False),
    ],
)
def test_a_number_beyond_all_measure_is_found_outside_of_text(text: bytes, huge: bool) -> None:
    json.loads(text)

    assert holds_huge_number(text) is huge
