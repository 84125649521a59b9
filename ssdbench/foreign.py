"""Text that somebody else chose, made fit for a terminal, a log, a page or a spreadsheet.

File names, drive strings, profiles, stored results and answers of programs may hold anything. What
a terminal would act on is shown as Python writes it in a string, such as `\\x1b`.
"""

import re

MOST = 400  # characters of one foreign value within a message
MOST_SHOWN = 4000  # characters of a whole line

# Control characters, what turns the direction of writing, line and paragraph separators, invisible
# fillers, halves of a surrogate pair (no encoding has them) and what is no character at all.
_ACTS = (
    r"\x00-\x09\x0b-\x1f\x7f-\x9f\u00ad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f"
    r"\ufeff\ufff9-\ufffb\ufffe\uffff\ud800-\udfff\U000e0000-\U000e007f"
)
_ACTING = re.compile(f"[{_ACTS}]")
_ACTING_OR_NEWLINE = re.compile(f"[{_ACTS}\n]")
_FORMULA = re.compile(r"[=+\-@]|\\[tr]|\\x[01]")
_NUMBER = re.compile(r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?|-")


def _escaped(found: re.Match[str]) -> str:
    return found.group().encode("unicode_escape", "surrogatepass").decode("ascii")


def lines(text: str) -> str:
    """Text of several lines as it may be shown; each line is cut at a sane length."""
    if text.isascii() and text.isprintable() and len(text) <= MOST_SHOWN:
        return text
    return "\n".join(brief(_ACTING.sub(_escaped, line), MOST_SHOWN) for line in text.split("\n"))


def plain(text: str, most: int = MOST_SHOWN) -> str:
    """One value as it may stand within a line: no new line begins in it."""
    if text.isascii() and text.isprintable() and len(text) <= most:
        return text
    return brief(_ACTING_OR_NEWLINE.sub(_escaped, text), most)


def brief(text: str, most: int = MOST) -> str:
    """At most so many characters: the beginning and the end, with what was left out named."""
    if len(text) <= most:
        return text
    head, tail = most * 3 // 4, most // 4
    return f"{text[:head]}… ({len(text) - head - tail:,} characters left out) …{text[-tail:]}"


def cell(text: str) -> str:
    """A cell of text for a spreadsheet, which takes what begins with = + - @ for a formula.

    Such a cell gets an apostrophe before it, which spreadsheets take off; numbers stay numbers.
    """
    shown = plain(text)
    if _FORMULA.match(shown.lstrip(" ")) and not _NUMBER.fullmatch(shown):
        return f"'{shown}"
    return shown
