"""The C files of a module stand above one another: none needs a file that needs it.

A file and the header of its name are one. It needs whatever header it includes, and the file that
defines what it calls.
"""

import re
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

KMOD = Path(__file__).resolve().parents[3] / "kmod"
_INCLUDE = re.compile(r'^#include "(\w+)\.h"', re.M)
_COMMENT = re.compile(r"/\*.*?\*/", re.S)
_STRING = re.compile(r'"(?:\\.|[^"\\\n])*"')
# A function with its body, or a variable with its value, that other files can see.
_DEFINED = re.compile(
    r"^(?!static|typedef|extern|#)[a-z][\w \t*]*?\b(\w+)\s*(?:\([^;{}]*\)\s*\{|(?:\[\w*\])*\s*=)",
    re.M,
)
_INLINE = re.compile(r"^static inline[^;{]*\{.*?^\}", re.M | re.S)


def needs(directory: Path) -> dict[str, set[str]]:
    """For each file by its name without ending, those that it needs."""
    found: dict[str, set[str]] = {path.stem: set() for path in directory.glob("*.[ch]")}
    words: dict[str, set[str]] = {stem: set() for stem in found}
    defined: dict[str, str] = {}
    for path in directory.glob("*.[ch]"):
        text = path.read_text()
        found[path.stem] |= {name for name in _INCLUDE.findall(text) if name in found}
        code = _STRING.sub("", _COMMENT.sub("", text))
        if path.suffix == ".c":
            defined |= dict.fromkeys(_DEFINED.findall(code), path.stem)
        else:
            code = "".join(_INLINE.findall(code))  # a declaration is no use
        words[path.stem] |= set(re.findall(r"\w+", code))
    for stem, used in words.items():
        found[stem] |= {defined[word] for word in used & defined.keys()}
        found[stem].discard(stem)
    return found


def circle(directory: Path) -> list[str]:
    """The files of one circle, empty if there is none."""
    try:
        TopologicalSorter(needs(directory)).prepare()
    except CycleError as error:
        return list(error.args[1])
    return []


@pytest.mark.parametrize("module", ["bpref", "flash", "ftl", "slam", "tmerge"])
def test_no_file_of_a_module_needs_one_that_needs_it(module: str) -> None:
    assert sum(map(len, needs(KMOD / module).values())) > len(needs(KMOD / module))
    assert circle(KMOD / module) == []


def test_a_circle_through_a_header_is_seen(tmp_path: Path) -> None:
    (tmp_path / "map.h").write_text(
        "static inline int room(int *left)\n{\n\treturn *left ? 0 : collect(left);\n}\n"
    )
    (tmp_path / "gc.c").write_text(
        '#include "map.h"\n\n/* Calls room(). */\nint collect(int *left)\n{\n\treturn ++*left;\n}\n'
    )
    (tmp_path / "run.c").write_text("int run(int *left)\n{\n\treturn collect(left);\n}\n")

    assert set(circle(tmp_path)) == {"map", "gc"}


def test_only_the_table_of_kinds_asks_for_a_drives_kind() -> None:
    asking = {path.name for path in (KMOD / "ftl").glob("*.[ch]") if "SSDB_FTL_" in
              re.sub(r"SSDB_FTL_H\b", "", path.read_text())}  # fmt: skip

    assert asking == {"kinds.c", "ssdb_params.h"}
