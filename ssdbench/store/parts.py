"""A store on disk: parts that are written whole, never changed, and proven by their hashes.

    store.json                              which form of store it is
    model=PM9A3/month=2026-11/PART/         everything that one `store add` brought of a model
        drives.parquet points.parquet repeats.parquet findings.parquet
        runs.json                           its runs, with the hashes of their files
        part.json                           the hashes of all these; part.json.sig signs them

A part is made under a name that begins with a dot and then renamed: it is there as a whole or not
at all. Compaction makes one part of several; until the old ones are removed, the new one names
them.
"""

import json
import os
import re
import shutil
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from hashlib import sha256
from pathlib import Path
from secrets import token_hex

from ssdbench.errors import UsageError
from ssdbench.foreign import json_object, read_regular
from ssdbench.host.files import make_directory, sync_directory, write_atomic
from ssdbench.host.lock import waiting

FORM = 1
STORE, PART, RUNS, SIGNATURE = "store.json", "part.json", "runs.json", "part.json.sig"
_DRAFT = re.compile(r"\.[0-9a-f]{16}\.draft")
# Names as `Store.write` gives them.
_MODEL = re.compile(r"model=[A-Za-z0-9._-]+")
_MONTH = re.compile(r"month=[0-9]{4}-[0-9]{2}")
_PART = re.compile(rf"[0-9a-f]{{16}}|{_DRAFT.pattern}")
MOST_PARTS = 100_000


@dataclass(frozen=True, slots=True)
class Origin:
    """A run in a part: its files' hashes, and who signed it."""

    run_id: str
    result_sha256: str
    manifest_sha256: str
    method: int
    signed_by: str


@dataclass(frozen=True, slots=True)
class Part:
    """One part as its part.json has it."""

    path: Path
    model: str
    month: str
    methods: dict[int, int]  # how many runs of each
    files: dict[str, str]  # SHA-256 of each
    replaces: tuple[str, ...]

    @property
    def tables(self) -> tuple[str, ...]:
        """Names of its tables' files."""
        return tuple(name for name in self.files if name != RUNS)

    @property
    def count(self) -> int:
        """How many runs it has."""
        return sum(self.methods.values())

    def runs(self) -> tuple[Origin, ...]:
        """Its runs; many, so that only who needs them reads them. Raises UsageError."""
        path = self.path / RUNS
        try:
            return tuple(
                Origin(**{field: one[field] for field in Origin.__slots__})
                for one in json_object(read_regular(path))["runs"]
            )
        except OSError as error:
            raise _damaged(path, error.strerror or "it cannot be read") from error
        except (ValueError, KeyError, TypeError) as error:
            raise _damaged(path, str(error)) from error


@dataclass(frozen=True, slots=True)
class Store:
    """The directory."""

    directory: Path

    @classmethod
    def open(cls, directory: Path) -> "Store":
        """A store that is there. Raises UsageError."""
        path = directory / STORE
        try:
            form = json_object(read_regular(path)).get("store")
        except OSError as error:
            raise UsageError(
                f"{directory} is no store: it has no {STORE}",
                hint="`ssdbench store add STORE RUN` makes one.",
            ) from error
        except ValueError as error:
            raise UsageError(f"{path} is damaged: {error}") from error
        if not isinstance(form, int) or not 1 <= form <= FORM:
            raise UsageError(
                f"{directory} is a store of form {form}; this version reads up to {FORM}",
                hint="Use the version of ssdbench that wrote it, or a newer one.",
            )
        return cls(directory)

    @classmethod
    def made(cls, directory: Path) -> "Store":
        """A store, made where there is nothing. Raises UsageError, HostLacks."""
        if not (directory / STORE).exists():
            if directory.exists() and any(directory.iterdir()):
                raise UsageError(
                    f"{directory} is no store, and not empty", hint="Name an empty directory."
                )
            make_directory(directory)
            write_atomic(directory / STORE, json.dumps({"store": FORM}) + "\n")
        return cls.open(directory)

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Be the only one that writes; what this one or an earlier leaves half is removed."""
        with waiting(self.directory / ".lock"):
            self._remove_drafts()
            known = list(self._all())
            replaced = {name for part in known for name in part.replaces}
            for part in known:
                if part.path.name in replaced:
                    shutil.rmtree(part.path)
            try:
                yield
            except BaseException:
                self._remove_drafts()
                raise

    def _remove_drafts(self) -> None:
        for path in self.drafts():
            shutil.rmtree(path)

    def drafts(self) -> list[Path]:
        """Parts that were never finished: half-written, and no part of any answer."""
        return [path for path in self._directories() if _DRAFT.fullmatch(path.name)]

    def parts(self) -> list[Part]:
        """Every part that counts. Raises UsageError for one that is damaged."""
        known = list(self._all())
        replaced = {name for part in known for name in part.replaces}
        return [part for part in known if part.path.name not in replaced]

    def _all(self) -> Iterator[Part]:
        for number, path in enumerate(self._directories()):
            if number > MOST_PARTS:
                raise UsageError(f"{self.directory} has more than {MOST_PARTS:,} parts")
            if not _DRAFT.fullmatch(path.name):
                yield _read(path)

    def _directories(self) -> Iterator[Path]:
        """Directories two levels down, by name. Raises UsageError for one that no store makes."""
        for model in _inside(self.directory, _MODEL):
            for month in _inside(model, _MONTH):
                yield from _inside(month, _PART)

    def write(
        self,
        model: str,
        month: str,
        runs: Sequence[Origin],
        tables: Callable[[Path], None],
        *,
        replaces: Sequence[str] = (),
    ) -> Part:
        """Add a part; `tables` writes its files into a directory. Raises HostLacks."""
        slug = re.sub(r"[^A-Za-z0-9._-]+", "_", model).strip("._") or "unknown"
        partition = self.directory / f"model={slug[:80]}" / f"month={month}"
        list(self._directories())  # nobody has put a link in its way
        if not _MONTH.fullmatch(partition.name):
            raise UsageError(f"{month!r} is no month: the time of a run is damaged")
        make_directory(partition)
        name = token_hex(8)
        draft = partition / f".{name}.draft"
        draft.mkdir()
        tables(draft)
        told = {"runs": [asdict(one) for one in runs]}
        (draft / RUNS).write_text(json.dumps(told, indent=0) + "\n")
        files = {path.name: _hash(path) for path in sorted(draft.iterdir())}
        for file in files:
            _sync(draft / file)
        about = {
            "part": FORM,
            "model": model,
            "month": month,
            "methods": Counter(str(one.method) for one in runs),
            "files": files,
            "replaces": list(replaces),
        }
        write_atomic(draft / PART, json.dumps(about, indent=1) + "\n")
        draft.rename(partition / name)
        sync_directory(partition)
        return _read(partition / name)


def require_whole(part: Part) -> None:
    """Raise UsageError when a file is not what was written."""
    for name, known in part.files.items():
        path = part.path / name
        try:
            found = _hash(path)
        except OSError as error:
            raise _damaged(path, error.strerror or "it cannot be read") from error
        if found != known:
            raise _damaged(path, f"its SHA-256 is not the one in {PART}")


def _read(path: Path) -> Part:
    about = path / PART
    try:
        told = json_object(read_regular(about))
        if told["part"] != FORM:
            raise UsageError(f"{about} is of form {told['part']}; this version reads {FORM}")
        files = {
            str(name): str(known)
            for name, known in told["files"].items()
            if re.fullmatch(r"[a-z]+\.parquet|runs\.json", name)
        }
        if RUNS not in files:
            raise UsageError(f"{about} names no {RUNS}, so nothing proves its rows")
        return Part(
            path=path,
            model=str(told["model"]),
            month=str(told["month"]),
            methods={int(method): int(count) for method, count in told["methods"].items()},
            files=files,
            replaces=tuple(str(name) for name in told.get("replaces", ())),
        )
    except OSError as error:
        raise UsageError(
            f"{path} is half a part: {PART} cannot be read: {error.strerror}",
            hint="Restore it from a copy, or move that directory away and add its runs again.",
        ) from error
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise _damaged(about, str(error)) from error


def _damaged(path: Path, why: str) -> UsageError:
    return UsageError(
        f"{path} is damaged or was altered: {why}",
        hint="Restore it from a copy, or move its part away and add the runs again.",
    )


def _inside(directory: Path, names: re.Pattern[str]) -> Iterator[Path]:
    try:
        found = sorted(os.scandir(directory), key=lambda entry: entry.name)
    except OSError as error:
        raise UsageError(f"{directory} cannot be read: {error.strerror}") from error
    for entry in found:
        if not entry.is_dir():
            continue
        if entry.is_symlink() or not names.fullmatch(entry.name):
            raise UsageError(
                f"{entry.path} is no directory that a store makes",
                hint="Move it away; parts are added with `ssdbench store add`.",
            )
        yield Path(entry.path)


def _hash(path: Path) -> str:
    return sha256(read_regular(path)).hexdigest()


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
