"""Keep the results of many runs in a store: a directory of Parquet files (docs/store.md).

    _store.json                             the version of the store's format
    PM9A3/2026-11/PART/                     one `store add` for one model and month
        drives.parquet points.parquet repeats.parquet findings.parquet
        _runs.json                          the runs of the part, with hashes of their files
        _part.json                          the hashes of all files above; _part.json.sig signs it

`store add` writes the files of a part into a directory whose name begins with a dot, and renames
the directory at the end. So each directory under its final name is complete. A complete part is
never changed. `compact` joins several parts into one new part. The new part lists the parts that it
replaces, so that they are ignored until they are removed.

Each Parquet file has the columns of all tables, and a column `table_name`. So other programs can
read the whole directory as one table. These programs skip a file whose name begins with an
underscore; in format 1, the JSON files had no underscore. The directories of format 1 were called
model=PM9A3 and month=2026-11. Other programs made columns from these names, so their column `model`
could differ from the column `model` in the files.
"""

import json
import os
import re
import shutil
from collections import Counter, defaultdict
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import partial
from hashlib import sha256
from pathlib import Path
from secrets import token_hex
from typing import Any

from ssdbench.errors import CommandFailed, UsageError
from ssdbench.foreign import descriptor_of, json_object, plain, read_regular
from ssdbench.host import command
from ssdbench.host.files import make_directory, sync_directory, write_atomic
from ssdbench.host.lock import waiting
from ssdbench.model.result import RunResult
from ssdbench.model.rundirectory import MANIFEST, RESULT
from ssdbench.report.database import connection, fetch_all, interruptible, pattern, quoted
from ssdbench.report.read import StoredRun
from ssdbench.report.tables import (
    RESULT_TYPES,
    SUMMARY_TYPES,
    Columns,
    Row,
    Tidy,
    point_findings,
    results_table,
    row_of,
    summary_table,
    types_of,
)

FORM = 2
PART_FORM = 1
STORE, PART, RUNS = "_store.json", "_part.json", "_runs.json"
_DRAFT = re.compile(r"\.[0-9a-f]{16}\.draft")
# Names that `Store.write` gives to directories, now or in format 1.
_MODEL = re.compile(r"(?:model=|[A-Za-z0-9-])[A-Za-z0-9._-]*")
_MONTH = re.compile(r"(?:month=)?[0-9]{4}-[0-9]{2}")
_PART = re.compile(rf"[0-9a-f]{{16}}|{_DRAFT.pattern}")
MOST_PARTS = 100_000


@dataclass(frozen=True, slots=True)
class Origin:
    """The entry of a run in its part: the hashes of its files, its method and who signed it."""

    run_id: str
    result_sha256: str
    manifest_sha256: str
    method: int
    signed_by: str


@dataclass(frozen=True, slots=True)
class Part:
    """One part of a store, as its file _part.json describes it."""

    path: Path
    model: str
    month: str
    methods: dict[int, int]  # number of runs by version of the method
    files: dict[str, str]  # SHA-256 of each file, by name
    replaces: tuple[str, ...]

    @property
    def tables(self) -> tuple[str, ...]:
        """Return the names of the part's Parquet files, one for each table."""
        return tuple(name for name in self.files if name.endswith(".parquet"))

    @property
    def about(self) -> Path:
        """Return the path of the file that describes the part; signatures sign this file."""
        return _kept(self.path, PART)

    @property
    def count(self) -> int:
        """Return the number of runs in this part."""
        return sum(self.methods.values())

    def runs(self) -> tuple[Origin, ...]:
        """Read the list of runs of this part. Raises UsageError if the file is damaged."""
        # Read only the file whose hash is known, not another file that somebody put there.
        path = self.path / next(name for name in self.files if name.endswith(".json"))
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
    """A store of runs, which is a directory."""

    directory: Path

    @classmethod
    def open(cls, directory: Path) -> "Store":
        """Open an existing store. Raises UsageError if the directory is not a store."""
        path = _kept(directory, STORE)
        try:
            form = json_object(read_regular(path)).get("store")
        except OSError as error:
            raise UsageError(
                f"{directory} is not a store: it has no {STORE}",
                hint="`ssdbench store add STORE RUN` makes one.",
            ) from error
        except ValueError as error:
            raise UsageError(f"{path} is damaged: {error}") from error
        if not isinstance(form, int) or not 1 <= form <= FORM:
            raise UsageError(
                f"{directory} is a store of format {form}, but this version reads up to {FORM}",
                hint="Use the version of ssdbench that wrote it, or a newer one.",
            )
        return cls(directory)

    @classmethod
    def made(cls, directory: Path) -> "Store":
        """Open a store, or create one if the directory is empty. Raises UsageError, HostLacks."""
        if not _kept(directory, STORE).exists():
            if directory.exists() and any(directory.iterdir()):
                raise UsageError(
                    f"{directory} is not a store, and it is not empty",
                    hint="Name an empty directory.",
                )
            make_directory(directory)
            cls(directory)._write_form()
        return cls.open(directory)

    def _write_form(self) -> None:
        write_atomic(self.directory / STORE, json.dumps({"store": FORM}) + "\n")
        (self.directory / STORE.removeprefix("_")).unlink(missing_ok=True)

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Hold the store's write lock; first remove incomplete parts and replaced parts."""
        with waiting(self.directory / ".lock"):
            self._write_form()
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
        """Return the directories of incomplete parts, which queries ignore."""
        return [path for path in self._directories() if _DRAFT.fullmatch(path.name)]

    def parts(self) -> list[Part]:
        """Return all complete parts that are not replaced. Raises UsageError for a damaged part."""
        known = list(self._all())
        replaced = {name for part in known for name in part.replaces}
        return [part for part in known if part.path.name not in replaced]

    def _all(self) -> Iterator[Part]:
        for number, path in enumerate(self._directories(), 1):
            if number > MOST_PARTS:
                raise UsageError(
                    f"the store {self.directory} has more than {MOST_PARTS:,} parts; each "
                    "`store add` makes one part for each model and month"
                )
            if not _DRAFT.fullmatch(path.name):
                yield _read(path)

    def _directories(self) -> Iterator[Path]:
        """Yield the directories of parts. Raises UsageError for a directory with another name."""
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
        """Add a part and return it; `tables` writes its Parquet files into the given directory.

        Raises HostLacks, UsageError.
        """
        slug = re.sub(r"[^A-Za-z0-9._-]+", "_", model).strip("._") or "unknown"
        partition = self.directory / slug[:80] / month
        list(self._directories())  # raises UsageError if a directory became a link
        if not _MONTH.fullmatch(partition.name):
            raise UsageError(f"{month!r} is not a month: the time of a run is damaged")
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
            "part": PART_FORM,
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
    """Raise UsageError if a file of a part is missing or its SHA-256 has changed."""
    for name, known in part.files.items():
        path = part.path / name
        try:
            found = _hash(path)
        except OSError as error:
            raise _damaged(path, error.strerror or "it cannot be read") from error
        if found != known:
            raise _damaged(path, f"its SHA-256 is not the one in {PART}")


def _kept(directory: Path, name: str) -> Path:
    """Return the path of a JSON file of a store; a file with the name of format 1 is preferred."""
    old = directory / name.removeprefix("_")
    return old if old.exists() else directory / name


def _read(path: Path) -> Part:
    about = _kept(path, PART)
    try:
        told = json_object(read_regular(about))
        if told["part"] != PART_FORM:
            raise UsageError(
                f"{about} is of format {told['part']}, but this version reads {PART_FORM}"
            )
        files = {
            str(name): str(known)
            for name, known in told["files"].items()
            if re.fullmatch(r"[a-z]+\.parquet|_?runs\.json", name)
        }
        if not files.keys() & {RUNS, RUNS.removeprefix("_")}:
            raise UsageError(f"{about} does not list {RUNS}, so its rows cannot be checked")
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
            f"{path} is an incomplete part: {PART} cannot be read: {error.strerror}",
            hint="Restore it from a copy, or move this directory away and add its runs again.",
        ) from error
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise _damaged(about, str(error)) from error


def _damaged(path: Path, why: str) -> UsageError:
    return UsageError(
        f"{path} is damaged or was changed: {why}",
        hint="Restore it from a copy, or move its part away and add its runs again.",
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
                f"{entry.path} is not a directory of a store",
                hint="Move it away. Use `ssdbench store add` to add runs.",
            )
        yield Path(entry.path)


def _hash(path: Path) -> str:
    return sha256(read_regular(path)).hexdigest()


def _sync(path: Path) -> None:
    with descriptor_of(path, os.O_RDONLY | os.O_NOFOLLOW) as descriptor:
        os.fsync(descriptor)


NAMESPACE = "ssdbench"


def sign(path: Path, key: Path) -> None:
    """Sign a file with an SSH key; the signature is in the file *.sig.

    Raises UsageError, HostLacks.
    """
    path.with_name(f"{path.name}.sig").unlink(missing_ok=True)
    try:
        command.run(["ssh-keygen", "-Y", "sign", "-n", NAMESPACE, "-f", str(key), "--", str(path)])
    except CommandFailed as error:
        raise UsageError(
            f"{path} cannot be signed: {error.message}",
            hint="If the key has a passphrase, use the agent: `ssh-add KEY`, then give KEY.pub.",
        ) from error


def signer(path: Path, signers: Path) -> str:
    """Return who signed a file. Raises UsageError if the key is not in `signers`; HostLacks."""
    signature = path.with_name(f"{path.name}.sig")
    try:
        data = read_regular(path)
        read_regular(signature)
    except OSError as error:
        raise UsageError(
            f"{path} is not signed: {error.strerror}",
            hint=f"On the host that measured it: ssh-keygen -Y sign -n {NAMESPACE} -f KEY FILE",
        ) from error
    common = ["-s", str(signature), "-f", str(signers)]
    found = command.run(
        ["ssh-keygen", "-Y", "find-principals", *common], ok=range(256), timeout_s=60
    )
    name = found.stdout.strip().partition("\n")[0].partition(",")[0]
    if found.status or not re.fullmatch(r"[^\s\0]{1,200}", name):
        raise UsageError(f"{path} is signed by a key that is not in {signers}")
    argv = ["ssh-keygen", "-Y", "verify", "-n", NAMESPACE, "-I", name, *common]
    if command.run(argv, ok=range(256), input=data, timeout_s=60).status:
        raise UsageError(
            f"{path} is not what {plain(name, 100)} signed",
            hint="Copy it again from the host that measured it.",
        )
    return name


@dataclass(frozen=True, slots=True)
class Added:
    """A run that will be added to a store, with the hashes of its result and manifest."""

    run: StoredRun
    result_sha256: str
    manifest_sha256: str
    signed_by: str = ""

    @property
    def model(self) -> str:
        """Return the model of the drive; if it is unknown, the simulated model or kind of drive."""
        target = self.run.result.target
        return target.model or target.sim_model or target.kind.value

    @property
    def month(self) -> str:
        """Return the month in which the run began, such as 2026-11."""
        return self.run.result.started_at[:7]

    @property
    def origin(self) -> Origin:
        """Return the entry that the part will have for this run."""
        result = self.run.result
        hashes = self.result_sha256, self.manifest_sha256
        return Origin(result.run_id, *hashes, result.method, self.signed_by)


# Every row of every table begins with these columns.
_ORIGIN: Columns[Added] = {
    "run_id": ("str", lambda one: one.run.result.run_id),
    "result_sha256": ("str", lambda one: one.result_sha256),
    "method": ("Int64", lambda one: one.run.result.method),
    "model": ("str", lambda one: one.model),
    "serial": ("str", lambda one: one.run.result.target.serial),
    "firmware": ("str", lambda one: one.run.result.target.firmware),
    "identity": ("str", lambda one: one.run.result.target.id),
    "is_simulated": ("boolean", lambda one: one.run.result.target.modelled),
}
_DRIVE: Columns[Added] = {
    **_ORIGIN,
    "size_bytes": ("Int64", lambda one: one.run.result.target.size_bytes),
    "kind": ("str", lambda one: one.run.result.target.kind.value),
    "title": ("str", lambda one: one.run.result.title),
    "started_at": ("str", lambda one: one.run.result.started_at),
    "finished_at": ("str", lambda one: one.run.result.finished_at),
    "profile_sha256": (
        "str",
        lambda one: sha256(one.run.result.profile_text.encode()).hexdigest(),
    ),
    "seed": ("Int64", lambda one: one.run.result.seed),
    "ssdbench_version": ("str", lambda one: one.run.result.ssdbench_version),
    "verdict": ("str", lambda one: str(one.run.result.verdict)),
    "bytes_written": ("Int64", lambda one: one.run.result.bytes_written),
    "endurance_tb": ("Float64", lambda one: one.run.result.endurance_tb),
    "signed_by": ("str", lambda one: one.signed_by or None),
}
# The columns of a finding, besides the columns of its run.
_FINDING_TYPES = {
    "code": "str", "severity": "str", "message": "str", "advice": "str", "stage": "str",
    "point": "str", "repeat_number": "Int64",
}  # fmt: skip
ORIGIN_TYPES = types_of(_ORIGIN)
TABLES = {
    "drives": types_of(_DRIVE),
    "points": ORIGIN_TYPES | {k: v for k, v in SUMMARY_TYPES.items() if k != "run_id"},
    "repeats": ORIGIN_TYPES | {k: v for k, v in RESULT_TYPES.items() if k != "run_id"},
    "findings": ORIGIN_TYPES | _FINDING_TYPES,
}
# The columns of each file after `table_name`: a column has one type in all tables.
_ALL_TYPES = {column: kind for types in TABLES.values() for column, kind in types.items()}


def added(run: StoredRun, *, signed_by: str = "") -> Added:
    """Return a run with the hashes of its files. Raises UsageError if a file cannot be read."""
    try:
        files = [read_regular(run.directory / name) for name in (RESULT, MANIFEST)]
    except OSError as error:
        raise UsageError(
            f"{error.filename} cannot be read: {error.strerror}",
            hint="Copy the whole directory of the run.",
        ) from error
    hashes = [sha256(data).hexdigest() for data in files]
    return Added(run, hashes[0], hashes[1], signed_by)


def rows_of(one: Added) -> dict[str, list[Row]]:
    """Return the rows of one run for each table of the store, by name of the table."""
    result = one.run.result
    origin = row_of(_ORIGIN, one)
    repeats = [row for row in results_table(result).rows if row.get("repeat_number") is not None]
    return {
        "drives": [row_of(_DRIVE, one)],
        "points": [row | origin for row in summary_table(result).rows],
        "repeats": [row | origin for row in repeats],
        "findings": [origin | row for row in _findings(result)],
    }


def _findings(result: RunResult) -> Iterator[Row]:
    found = [
        *((finding, finding.stage) for finding in result.findings),
        *((finding, stage.name) for stage in result.stages for finding in stage.findings),
        *(
            (finding, stage.name)
            for stage in result.stages
            for point in stage.points
            for finding in point_findings(point)
        ),
    ]
    for finding, stage in dict.fromkeys(found):
        values = (
            str(finding.code), str(finding.severity), finding.message, finding.advice, stage,
            finding.point, finding.repeat,
        )  # fmt: skip
        yield dict(zip(_FINDING_TYPES, values, strict=True))


SQL_TYPES = {"str": "VARCHAR", "Int64": "BIGINT", "Float64": "DOUBLE", "boolean": "BOOLEAN"}


def add(store: Store, runs: Sequence[Added]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Add runs to a store, in one new part for each model and month.

    Returns the names of the runs that were added, and of those that the store already had.

    Raises UsageError if the store has a run of the same name with another result, and the errors of
    `Store.write`.
    """
    given: dict[str, Added] = {}
    for one in runs:
        name = one.run.result.run_id
        if name in given and given[name].result_sha256 != one.result_sha256:
            raise _other_result(name, str(one.run.directory))
        given[name] = one
    with store.writing():
        known = {
            origin.run_id: origin.result_sha256 for part in store.parts() for origin in part.runs()
        }
        for name, one in given.items():
            if known.get(name, one.result_sha256) != one.result_sha256:
                raise _other_result(name, str(one.run.directory))
        new = [one for name, one in given.items() if name not in known]
        by_place: dict[tuple[str, str], list[Added]] = defaultdict(list)
        for one in new:
            by_place[one.model, one.month].append(one)
        for (model, month), some in by_place.items():
            origins = [one.origin for one in some]
            store.write(model, month, origins, partial(_tables, some))
    names = tuple(one.run.result.run_id for one in new)
    return names, tuple(name for name in given if name not in names)


def compact(store: Store) -> int:
    """Join the parts of each model and month into one part, and convert parts of format 1.

    Returns by how many the number of parts became smaller.
    """
    gone = 0
    with store.writing():
        by_place: dict[tuple[str, str], list[Part]] = defaultdict(list)
        for part in store.parts():
            by_place[part.model, part.month].append(part)
        for (model, month), parts in by_place.items():
            if len(parts) < 2 and "=" not in parts[0].path.parent.name:
                continue
            for part in parts:
                require_whole(part)
            runs = [origin for part in parts for origin in part.runs()]
            store.write(
                model, month, runs, partial(_joined, parts),
                replaces=[part.path.name for part in parts],
            )  # fmt: skip
            gone += len(parts) - 1
    with store.writing():  # removes the replaced parts
        return gone


def _tables(runs: Sequence[Added], path: Path) -> None:
    rows = [rows_of(one) for one in runs]
    with connection(threads=1) as database:
        for name, types in TABLES.items():
            made = Tidy([row for one in rows for row in one[name]], types).frame()
            columns = ", ".join(f'"{column}" {SQL_TYPES[kind]}' for column, kind in types.items())
            database.execute(f"CREATE TABLE {name} ({columns})")
            database.register("frame", made)
            database.execute(f"INSERT INTO {name} SELECT * FROM frame")
            _copy(database, name, name, path)


@contextmanager
def readable(*parts: Part) -> Iterator[None]:
    """Raise UsageError if the block cannot read a table, although the table's hash is right."""
    from duckdb import Error

    try:
        yield
    except Error as error:
        places = ", ".join(str(part.path) for part in parts[:3])
        raise UsageError(
            f"{places}: a table cannot be read: {str(error).splitlines()[0]}",
            hint="Move the part away and add its runs again.",
        ) from error


def _joined(parts: Sequence[Part], path: Path) -> None:
    with connection(threads=1) as database, readable(*parts):
        for name in TABLES:
            file = f"{name}.parquet"
            files = [str(part.path / file) for part in parts if file in part.tables]
            _copy(database, name, f"({selected(database, name, files)})", path)


def selected(database: Any, name: str, files: Sequence[str]) -> str:
    """Return a SELECT of the table `name` from files; a column that the files lack is NULL."""
    listed = ", ".join(map(pattern, files))
    reader = f"read_parquet([{listed}], union_by_name=true, hive_partitioning=false)"
    there = {row[0] for row in fetch_all(database, f"DESCRIBE SELECT * FROM {reader}")}
    return f"SELECT {_shown(TABLES[name], there)} FROM {reader}"


def _shown(types: Mapping[str, str], there: Container[str]) -> str:
    """Return the list of columns for a SELECT; a column that is not in `there` is NULL."""
    return ", ".join(
        f'"{column}"' if column in there else f'CAST(NULL AS {SQL_TYPES[kind]}) AS "{column}"'
        for column, kind in types.items()
    )


def _copy(database: Any, name: str, rows: str, path: Path) -> None:
    """Write the rows of the table `name` from the SQL source `rows` to its Parquet file."""
    shown = f"'{name}' AS table_name, {_shown(_ALL_TYPES, TABLES[name])}"
    into = quoted(str(path / f"{name}.parquet"))
    order = f"COPY (SELECT {shown} FROM {rows}) TO {into} (FORMAT parquet, COMPRESSION zstd)"
    interruptible(database, lambda: database.execute(order))


def _other_result(name: str, place: str) -> UsageError:
    return UsageError(
        f"{place}: the store has a run {name} with another result",
        hint="One of them was changed, or two hosts gave the same name. Compare both manifests.",
    )
