"""Read YAML 1.2 text as plain data, and store the position of each key and value.

A duplicate key, an alias that contains itself, and a tag are reported as mistakes with a position.
A file that declares YAML 1.1 is refused, because YAML 1.1 reads `on` as true and `1:30` as 90.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from ssdbench.errors import Diagnostic
from ssdbench.foreign import plain

Path = tuple[str | int, ...]

MAX_DEPTH = 32
MAX_NODES = 20_000  # aliases can make a short text huge
MOST_SHOWN = 1000  # characters of one mistake
MOST_MISTAKES = 50
LARGEST_NUMBER = 2**64  # Python's numbers have no limit, and larger ones cannot always be printed

_PLAIN_TAGS = frozenset(
    f"tag:yaml.org,2002:{name}" for name in ("str", "int", "float", "bool", "null", "seq", "map")
)
# ruamel recognises these types, but profiles do not have them: such values stay text.
_TEXT_TAGS = frozenset(f"tag:yaml.org,2002:{name}" for name in ("timestamp", "merge", "value"))


@dataclass(frozen=True, slots=True)
class Position:
    """Hold line and column, counted from 1 as in editors and compilers."""

    line: int
    column: int


@dataclass(frozen=True, slots=True)
class Scalar:
    """Hold a text value, with its start and end in the file, counted in characters."""

    value: str
    start: int
    end: int


@dataclass(slots=True)
class Document:
    """Hold the data of a YAML text, the position of every key and value, and the mistakes."""

    file: str
    data: object = None
    keys: dict[Path, Position] = field(default_factory=dict)
    values: dict[Path, Position] = field(default_factory=dict)
    scalars: dict[Path, Scalar] = field(default_factory=dict)  # those that are text
    diagnostics: list[Diagnostic] = field(default_factory=list)

    @property
    def full(self) -> bool:
        """Tell whether so many mistakes were found that the search for more stops."""
        return len(self.diagnostics) >= MOST_MISTAKES

    def complain(self, position: Position, message: str, *, key: str = "") -> None:
        """Add a mistake about a key or a position. `message` may contain text of the file."""
        if not self.full:
            at = position.line, position.column
            text = plain(f"{key}: {message}" if key else message, MOST_SHOWN)
            self.diagnostics.append(Diagnostic(self.file, *at, text, key))

    def value_at(self, path: Path) -> Position:
        """Return the position of the value at `path`, or of the nearest part that contains it."""
        return self.values.get(path) or self._around(path)

    def key_at(self, path: Path) -> Position:
        """Return the position of the key that leads to `path`."""
        return self.keys.get(path) or self.value_at(path)

    def _around(self, path: Path) -> Position:
        while path:
            path = path[:-1]
            if path in self.keys:
                return self.keys[path]
            if path in self.values:
                return self.values[path]
        return Position(1, 1)


def read(text: str, file: str) -> Document:
    """Read a YAML document; `diagnostics` holds its mistakes, and no error is raised."""
    document = Document(file)
    yaml = YAML(typ="safe", pure=True)
    yaml.max_depth = MAX_DEPTH + 1
    yaml.composer.warn_double_anchors = False
    try:
        node = yaml.compose(text)
        if node is not None:
            document.data = _Reader(document, yaml).read(node, (), 0)
    except MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        document.complain(_position(mark) if mark else Position(1, 1), _syntax_message(error))
    except YAMLError as error:
        document.complain(_unreadable_at(text), f"not YAML: {_one_line(str(error))}")
    except RecursionError:
        document.complain(Position(1, 1), "the brackets of this file are nested too deep")
    except (ValueError, LookupError, ArithmeticError, TypeError, AttributeError) as error:
        # These are errors inside the library, such as chr(0x110000) of an escape.
        mark = yaml.reader.get_mark()
        document.complain(_position(mark), f"not YAML: {_one_line(str(error))}")
    _refuse_yaml_1_1(document, text)
    return document


class _Reader:
    def __init__(self, document: Document, yaml: YAML) -> None:
        self._document = document
        self._construct = yaml.constructor.construct_object
        self._nodes = 0

    def read(self, node: Node, path: Path, depth: int) -> object:
        self._nodes += 1
        position = _position(node.start_mark)
        self._document.values.setdefault(path, position)
        if depth > MAX_DEPTH or self._nodes > MAX_NODES:
            if self._nodes <= MAX_NODES + 1:
                self._document.complain(position, "nested too deep, or an alias of itself")
            self._nodes = max(self._nodes, MAX_NODES + 1)
            return None
        if isinstance(node, MappingNode):
            return self._mapping(node, path, depth)
        if isinstance(node, SequenceNode):
            return [self.read(item, (*path, i), depth + 1) for i, item in enumerate(node.value)]
        value = self._scalar(node, position)
        if isinstance(value, str):
            ends = (getattr(mark, "index", 0) for mark in (node.start_mark, node.end_mark))
            self._document.scalars[path] = Scalar(value, *ends)
        return value

    def _mapping(self, node: MappingNode, path: Path, depth: int) -> dict[str, object]:
        data: dict[str, object] = {}
        for key_node, value_node in node.value:
            position = _position(key_node.start_mark)
            if not isinstance(key_node, ScalarNode):
                self._document.complain(position, "a key must be a plain word")
                continue
            key = str(key_node.value)
            if key in data:
                first = self._document.keys[(*path, key)]
                self._document.complain(
                    position, f"duplicate key '{key}' (first given in line {first.line})"
                )
                continue
            self._document.keys[(*path, key)] = position
            data[key] = self.read(value_node, (*path, key), depth + 1)
            if data[key] is None:  # an empty value has no position of its own
                self._document.values[*path, key] = position
        return data

    def _scalar(self, node: Node, position: Position) -> object:
        tag = str(node.tag)
        if tag in _TEXT_TAGS:
            return str(node.value)
        if tag not in _PLAIN_TAGS:
            self._document.complain(position, f"tags such as '{tag}' have no meaning here")
            return str(node.value)
        try:
            value = self._construct(node)
        except (YAMLError, ValueError, LookupError, ArithmeticError):  # `!!bool maybe`, `!!int ""`
            return str(node.value)
        huge = isinstance(value, int) and abs(value) > LARGEST_NUMBER
        return str(node.value) if huge else value


def _position(mark: object) -> Position:
    return Position(getattr(mark, "line", 0) + 1, getattr(mark, "column", 0) + 1)


def _syntax_message(error: MarkedYAMLError) -> str:
    problem = _one_line(str(error.problem or "cannot be read"))
    if "'\\t'" in problem:
        return "YAML does not allow tabs as indentation; use spaces"
    if "maximum depth" in problem:
        return "nested too deep"
    context = f" {_one_line(str(error.context))}" if error.context else ""
    return f"not YAML: {problem}{context}"


def _one_line(text: str) -> str:
    return " ".join(text.split())


def _unreadable_at(text: str) -> Position:
    """Return the position of the first character that YAML forbids, such as a NUL."""
    for line, content in enumerate(text.split("\n"), start=1):
        for column, character in enumerate(content, start=1):
            if character != "\t" and not character.isprintable() and character != "\r":
                return Position(line, column)
    return Position(1, 1)


def _refuse_yaml_1_1(document: Document, text: str) -> None:
    for number, line in enumerate(text.splitlines(), start=1):
        if line.startswith("%YAML") and line.split()[1:2] != ["1.2"]:
            document.complain(Position(number, 1), "this file is read as YAML 1.2; drop this line")


def dotted(path: Sequence[str | int]) -> str:
    """Return a path in the usual notation, such as `measure[0].sweep.block`."""
    text = ""
    for part in path:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else part
    return text
