"""The glossary, and the words that count as one of its terms. `termlinks` makes the links."""

import re

PAGE = "terms"
ROW = re.compile(r"^\| ([^|`]+?) \| ([^|]+) \|", re.MULTILINE)
# Words of every day besides: they are the term only as a noun, behind one of these.
EVERYDAY = {"point", "return", "repeat", "run", "stage", "bound", "window", "setting", "settle"}
BEFORE = r"(?:(?:an?|the|each|every|its|of|per|whole|pessimistic|this|\d+|two|ten|all) )"


def glossary(text: str) -> dict[str, str]:
    """Each term and its meaning, from the table of the page."""
    rows = ((terms, meaning) for terms, meaning in ROW.findall(text) if terms != "term")
    return {term: meaning for terms, meaning in rows for term in terms.split(", ")}


def anchor(term: str) -> str:
    """The place of a term on the page."""
    return "term-" + re.sub(r"\W+", "-", term.lower())


def with_anchors(text: str) -> str:
    """The page of terms, with a place to lead to in each row."""

    def placed(row: re.Match[str]) -> str:
        if row[1] == "term" or set(row[1]) == {"-"}:
            return row[0]
        marks = "".join(f"[]{{#{anchor(term)}}}" for term in row[1].split(", "))
        return f"| {marks}{row[1]} | {row[2]} |"

    return ROW.sub(placed, text)


def pattern(term: str) -> re.Pattern[str]:
    """The words that count as the term; the term itself is the first group."""
    if term.isupper():
        return re.compile(rf"\b({term})\b")
    if term in EVERYDAY:
        return re.compile(rf"(?i:\b{BEFORE})({term})\b(?!-)")
    return re.compile(rf"(?i:(?<![-\w])({term}s?))\b(?!-)")
