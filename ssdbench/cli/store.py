"""Keep the results of many runs in a store, and query it (`ssdbench store`, `ssdbench query`)."""

from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import click

from ssdbench.cli.options import PATH, json_option
from ssdbench.cli.output import answer, document, table, tell
from ssdbench.errors import UsageError
from ssdbench.units import counted

store_argument = click.argument("directory", metavar="STORE", type=PATH)
signers_option = click.option(
    "--signers",
    type=PATH,
    metavar="FILE",
    help="Accept only runs that a key in this file has signed. The file has the format ALLOWED "
    "SIGNERS of ssh-keygen(1).",
)


@click.group("store")
def store() -> None:
    """Keep the results of many runs as Parquet files with checksums, for `query`."""


@store.command("add")
@store_argument
@click.argument("runs", metavar="RUN|DIR...", nargs=-1, required=True, type=PATH)
@signers_option
@json_option
def add_command(
    directory: Path, runs: tuple[Path, ...], signers: Path | None, as_json: bool
) -> None:
    """Add finished runs to STORE, which is created if it is missing.

    A run that STORE already has is skipped. With --signers, each result.json needs its signature
    result.json.sig in the same directory.
    """
    from ssdbench.cli.documents.stored import StoreAdded
    from ssdbench.export.store import Store, add, added, signer
    from ssdbench.model.rundirectory import RESULT
    from ssdbench.suite.gather import run_directories, whole_run

    now = datetime.now(UTC)
    given = []
    for path in run_directories(runs):
        run, _ = whole_run(path, now)
        who = "" if signers is None else signer(path / RESULT, signers)
        given.append(added(run, signed_by=who))
    new, there = add(Store.made(directory), given)
    if as_json:
        document(StoreAdded(directory=str(directory), added=new, there=there))
        return
    answer(f"{counted(len(new), 'run')} added, {len(there)} were in the store already")


@store.command("check")
@store_argument
@signers_option
@json_option
def check_command(directory: Path, signers: Path | None, as_json: bool) -> int:
    """Check every file of STORE against its checksum, and every row against its stored run."""
    from ssdbench.cli.documents.stored import StoreChecked
    from ssdbench.export.query import check
    from ssdbench.export.store import Store, signer

    opened = Store.open(directory)
    wrong = check(opened, partial(signer, signers=signers) if signers else None)
    parts = opened.parts()
    runs = sum(part.count for part in parts)
    if as_json:
        document(
            StoreChecked(directory=str(directory), parts=len(parts), runs=runs, wrong=tuple(wrong))
        )
    else:
        for line in wrong:
            answer(line)
        stored = f"{counted(len(parts), 'part')}, {counted(runs, 'run')}"
        answer(f"{stored}, {counted(len(wrong), 'error') if wrong else 'no errors'}")
    return 1 if wrong else 0


@store.command("compact")
@store_argument
@json_option
def compact_command(directory: Path, as_json: bool) -> None:
    """Join all parts of a model and month into one part. The signatures of the old parts are lost.

    A part is a directory with one Parquet file per table.
    """
    from ssdbench.cli.documents.stored import StoreCompacted
    from ssdbench.export.store import Store, compact

    gone = compact(Store.open(directory))
    if as_json:
        document(StoreCompacted(directory=str(directory), fewer=gone))
    else:
        answer(f"the store has {counted(gone, 'part')} fewer")


@store.command("sign")
@store_argument
@click.option(
    "--key", type=PATH, metavar="KEY", required=True,
    help="A private key of OpenSSH, or a public key whose private key is in ssh-agent.",
)  # fmt: skip
@json_option
def sign_command(directory: Path, key: Path, as_json: bool) -> None:
    """Check every part of STORE that has no signature, and sign it."""
    from ssdbench.cli.documents.stored import StoreSigned
    from ssdbench.export.store import Store, require_whole, sign

    signed = []
    for part in Store.open(directory).parts():
        if not part.about.with_name(f"{part.about.name}.sig").exists():
            require_whole(part)
            sign(part.about, key)
            signed.append(str(part.path))
    if as_json:
        document(StoreSigned(directory=str(directory), signed=tuple(signed)))
    else:
        answer(f"{counted(len(signed), 'part')} signed")


@click.command("query")
@click.argument("sql", metavar="SQL")
@click.option(
    "--store", "directory", type=PATH, metavar="STORE", required=True,
    help="The store to query.",
)  # fmt: skip
@click.option(
    "--method", type=click.IntRange(1), metavar="N",
    help="Query runs with this version of the method. Default: the newest version.",
)  # fmt: skip
@json_option
def query(sql: str, directory: Path, method: int | None, as_json: bool) -> None:
    """Run one SELECT on a store, which has the views drives, points, repeats and findings.

    ssdbench query --store lot "SELECT model, firmware, min(iops_bound) FROM points GROUP BY ALL"
    """
    from ssdbench.export.query import MOST_MEMORY_BYTES, TOO_LARGE
    from ssdbench.host.processes import memory_at_most

    try:
        with memory_at_most(MOST_MEMORY_BYTES):
            _ask(sql, directory, method, as_json=as_json)
    except MemoryError as error:
        raise UsageError("the answer needs more than 900 MB of memory", hint=TOO_LARGE) from error


def _ask(sql: str, directory: Path, method: int | None, *, as_json: bool) -> None:
    from ssdbench.cli.documents.stored import Queried
    from ssdbench.export.query import ask
    from ssdbench.export.store import Store

    found = ask(Store.open(directory), sql, method=method)
    for note in found.notes:
        tell(note)
    if as_json:
        rows = tuple(tuple(_plain(cell) for cell in row) for row in found.rows)
        document(Queried(columns=found.columns, rows=rows, method=found.method, notes=found.notes))
        return
    shown = [["" if cell is None else _shown(cell) for cell in row] for row in found.rows]
    answer(table(found.columns, shown))


def _shown(cell: object) -> str:
    return f"{cell:.10g}" if isinstance(cell, float) else str(cell)


def _plain(cell: object) -> str | int | float | bool | None:
    return cell if cell is None or isinstance(cell, str | int | float | bool) else str(cell)
