"""Small changes to texts and JSON that trip readers up; everything comes from one seed."""

import json
import random
from collections.abc import Sequence
from typing import Any

NASTY_TEXT = (
    "", " ", "~", "null", "true", "no", "-", "- ", "0", "-1", "1", "1e400", "-1e400", ".inf",
    ".nan", "0x10", "0o17", "1_000", "9" * 30, "9" * 400, "0x" + "f" * 5000, "1:30", "4KB", "4KiB",
    "0KiB", "0.1KiB", "99999PiB", "1ns", "101y", "25%", "0%", "101%", "9" * 400 + "%",
    '"\\U00110000"', '"\\x1b[31m"', '"\\ud800"', '"\\0"', "!!bool maybe", '!!int ""',
    '!!float ""', "!!null x", "!!binary x", "!!set {a}", "!!omap [a: 1]", "!!timestamp x", "!x y",
    "&a", "*a", "&a *a", "<<: *a", "{", "}", "[", "]", "[]", "{}", "[[]]", "{a: }", "? ", ": ",
    "# ", "|", ">", "'", '"', "%YAML 1.1", "---", "...", "\t", "\x00", "\x85", "\u2028", "\ufeff",
    "=1+1", "keep", "sim:x25m-g2-160", "all", "2001-01-01", "2001-99-99", "[" * 50, "{a: " * 50,
    "- " * 50,
)  # fmt: skip
NASTY_VALUES: tuple[Any, ...] = (
    None, True, False, 0, -1, 1, 2**31, 2**63, 2**64, -(2**63), 10**30, 10**400, 0.0, -0.0, 0.5,
    1e-320, 1e308, float("inf"), float("nan"), "", "a", "\0", "\x1b[31m", "=1+1",
    "../../etc/passwd", "/etc/passwd", "a" * 10_000, "\u202e", '"><script>alert(1)</script>',
    "NaN", "1e400", [], {}, [[]], [None], {"": 0}, {"\0": 0}, ["a"] * 50,
)  # fmt: skip
ODD_LETTERS = "".join(map(chr, (0, 9, 27, 34, 58, 91, 123, 0x85, 0xD7FF)))


def mutated_text(text: str, words: Sequence[str], chance: random.Random) -> str:
    """One to four small changes to a text of lines."""
    lines = text.split("\n")
    for _ in range(chance.randint(1, 4)):
        at = chance.randrange(len(lines))
        line = lines[at]
        match chance.randrange(9):
            case 0:
                key, colon, _ = line.partition(":")
                lines[at] = f"{key}{colon} {chance.choice(NASTY_TEXT)}"
            case 1:
                indent = line[: len(line) - len(line.lstrip())]
                lines[at] = f"{indent}{chance.choice(words)}: {chance.choice(NASTY_TEXT)}"
            case 2:
                lines.insert(at, chance.choice(lines))
            case 3 if len(lines) > 1:
                del lines[at]
            case 4:
                lines[at] = " " * chance.randint(0, 8) + line.lstrip()
            case 5:
                place = chance.randint(0, len(line))
                lines[at] = line[:place] + chance.choice(NASTY_TEXT) + line[place:]
            case 6 if line:
                place = chance.randrange(len(line))
                indent = line[: len(line) - len(line.lstrip())]
                lines[at] = f"{indent}{chance.choice(words)}: {chance.choice(NASTY_TEXT)}"
            case 7:
                lines[at] = line.replace(line.strip().partition(":")[0], chance.choice(words), 1)
            case _:
                first, second = sorted((chance.randrange(len(lines)), chance.randrange(len(lines))))
                lines[first], lines[second] = lines[second], lines[first]
    return "\n".join(lines)


def mutated_json(value: Any, chance: random.Random, *, alike: bool = False) -> Any:
    """One to three values replaced, removed or repeated in place; `alike` keeps their types."""
    for _ in range(chance.randint(1, 3)):
        holder, key = _place(value, chance)
        if holder is None:
            continue
        old = holder[key]
        fitting = [n for n in NASTY_VALUES if not alike or type(n) is type(old)]
        match 0 if alike else chance.randrange(4):
            case 1 if isinstance(holder, dict):
                del holder[key]
            case 2 if isinstance(holder, list):
                holder.append(_copied(old))
            case 3:
                other, name = _place(value, chance)
                holder[key] = _copied(other[name]) if other is not None else None
            case _ if fitting:
                holder[key] = chance.choice(fitting)
    return value


def _copied(value: Any) -> Any:
    return json.loads(json.dumps(value))


def _place(value: Any, chance: random.Random) -> tuple[Any, Any]:
    """A random container within a value, and a random key of it."""
    holder, key = None, None
    while isinstance(value, dict | list) and value:
        holder = value
        key = (
            chance.choice(list(value)) if isinstance(value, dict) else chance.randrange(len(value))
        )
        value = value[key]
        if chance.random() < 0.1:
            break
    return holder, key


def mutated_bytes(data: bytes, chance: random.Random) -> bytes:
    """Cut, flipped, or a part of it overwritten."""
    at = chance.randrange(len(data) + 1)
    match chance.randrange(4):
        case 0:
            return data[:at]
        case 1:
            part = bytes(chance.randrange(256) for _ in range(chance.randint(1, 8)))
            return data[:at] + part + data[at + len(part) :]
        case 2:
            return data[:at] + data[chance.randrange(len(data) + 1) :]
        case _:
            flipped = bytearray(data)
            for _ in range(chance.randint(1, 4)):
                if flipped:
                    flipped[chance.randrange(len(flipped))] ^= 1 << chance.randrange(8)
            return bytes(flipped)


def dumped(value: Any) -> bytes:
    """As JSON, with what JSON cannot hold as Python writes it."""
    return json.dumps(value).encode()
