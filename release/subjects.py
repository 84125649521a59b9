"""Check the subjects of commits since the last release: `python -m release.subjects`.

A subject is `area: verb …`: one area or several, then what the commit does, as an order ("add",
not "added" or "adds"), in at most 72 characters. A word counts as a verb unless it is an article or
the like, a plural, a past form or an -ing form. Commits up to the last `release: VERSION`, or to
the last tag, are not checked. In a clone with a short history, all its commits are checked.
"""

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
LONGEST = 72
_SUBJECT = re.compile(r"(?P<area>[a-z0-9][\w./-]*(?:, [a-z0-9][\w./-]*)*): (?P<verb>[\w'-]+)")
_NO_VERB = re.compile(
    "a|all|an|and|any|both|each|every|few|for|from|hidden|how|if|in|it|its|more|most|no|nobody|none"
    "|not|nothing|now|of|on|one|only|other|our|six|small|some|such|that|the|their|these|they|this"
    "|those|to|two|we|what|when|where|which|who|why|with|you|your"
    "|(?!embed|exceed|feed|need|proceed|seed|shed|speed).*ed"
    "|(?!bring|ping|string).*ing"
    "|(?!(un|by|com)?(cross|pass|press)|access|address|discuss|dismiss|express|focus|guess|miss"
    "|process|stress|suppress).*s"
)
_RELEASE = re.compile(r"release: \d")


def wrong(subject: str) -> str:
    """What is wrong with a subject, as a sentence; empty if nothing is."""
    if len(subject) > LONGEST:
        return f"it has {len(subject)} characters, {LONGEST} are allowed"
    found = _SUBJECT.match(subject)
    if found is None:
        return "it does not begin with `area: verb`"
    verb = found["verb"]
    if not re.fullmatch("[a-z][a-z-]+", verb) or _NO_VERB.fullmatch(verb):
        return f"'{verb}' is not an order: say what the commit does, such as `docs: add …`"
    return ""


def since_release(root: Path = ROOT) -> Iterator[tuple[str, str]]:
    """Short name and subject of each commit since the last release, newest first.

    Nothing where there is no history, as in an unpacked sdist.
    """
    said = subprocess.run(
        ["git", "log", "--no-merges", "--format=%h%x09%D%x09%s"],
        cwd=root, capture_output=True, text=True, check=False,
    )  # fmt: skip
    for line in said.stdout.splitlines():
        name, refs, subject = line.split("\t", 2)
        if _RELEASE.match(subject) or "tag: v" in refs:
            return
        yield name, subject


def main() -> int:
    """Name each wrong subject; 1 if there is one."""
    found = [(name, subject, why) for name, subject in since_release() if (why := wrong(subject))]
    for name, subject, why in found:
        print(f"{name} {subject}\n    {why}")
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main())
