"""Write the report of a run: the page and the tables. Each file is complete or missing."""

from collections import Counter
from collections.abc import Collection
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

from ssdbench.errors import UsageError
from ssdbench.foreign import brief, write_whole
from ssdbench.model import rundirectory
from ssdbench.model.result import SCHEMA, RunResult
from ssdbench.report import database, tables
from ssdbench.report.database import connection, interruptible, pattern, quoted
from ssdbench.report.html import rendered
from ssdbench.report.read import StoredRun
from ssdbench.report.tables import RESULT_TYPES, Tidy
from ssdbench.report.view import (
    acceptance,
    capacity,
    conditions,
    findings,
    pointstage,
    stages,
    steady,
    words,
)
from ssdbench.report.view.headline import (
    ANSWER_INCOMPLETE,
    ANSWERED_NO,
    ASKED,
    COMPARED,
    IN_PART,
    NOT_ANSWERED,
    beside_plan,
    headline,
    headword,
)
from ssdbench.report.view.page import Page, Section
from ssdbench.report.view.points import first_table, rest
from ssdbench.report.view.words import simulated_label

MOST_NAMED = 100  # most characters of an unknown name in the error


def write_report(
    run_dir: Path, result: RunResult | None = None, points: Collection[str] = ()
) -> list[Path]:
    """Write the report of a run; `ssdbench.report.render` describes the arguments."""
    run = StoredRun(run_dir, result) if result else StoredRun.open(run_dir)
    result = run.result
    run.asked = frozenset(points)
    if unknown := sorted(run.asked - {point.point.id for point in result.points}):
        raise UsageError(
            f"{run_dir} has no point {brief(unknown[0], MOST_NAMED)}",
            hint="summary.csv lists the points of a run.",
        )
    table = tables.results_table(result)
    shown = {
        rundirectory.RESULTS_CSV: table,
        rundirectory.SUMMARY_CSV: tables.summary_table(result),
        rundirectory.ARTIFACTS_CSV: tables.artifacts_table(result),
    }
    if result.accepted:
        shown[rundirectory.TARGETS_CSV] = tables.targets_table(result)
    else:
        (run_dir / rundirectory.TARGETS_CSV).unlink(missing_ok=True)
    written = [_replaced(run_dir / name, tables.csv_bytes(one)) for name, one in shown.items()]
    typed = run_dir / rundirectory.RESULTS_PARQUET
    if database.is_available():
        data = parquet_bytes(table, run_id=result.run_id, version=result.ssdbench_version)
        written.append(_replaced(typed, data))
    else:
        typed.unlink(missing_ok=True)  # an earlier report's file, which may be outdated
    # Write the page last, because it lists only files that exist.
    html = _replaced(run_dir / rundirectory.REPORT, rendered(page(run)).encode())
    return [html, *written]


def _replaced(path: Path, data: bytes) -> Path:
    write_whole(path, data)
    return path


def page(run: StoredRun) -> Page:
    """Return the page of a run with all its parts."""
    result = run.result
    over = headword(result)
    return Page(
        title=result.title,
        run_id=result.run_id,
        when=words.moment(result.started_at),
        target=result.target.name,
        version=result.ssdbench_version,
        verdict=over.word,
        tone=over.tone,
        verdict_meaning=over.meaning,
        reasons=_reasons(result, over.word),
        proofs=findings.proofs(result),
        simulated=simulated_label(result.target),
        headline=headline(result),
        workloads=first_table(result),
        rest=rest(result),
        sections=_sections(run),
    )


def _reasons(result: RunResult, word: str) -> list[str]:
    if word in (ASKED, COMPARED):
        return []
    unanswered = word in (NOT_ANSWERED, ANSWER_INCOMPLETE)
    if unanswered and (answer := capacity.answer_of(result)):
        return [*answer.reasons, *answer.incomplete, *filter(None, [beside_plan(result)])]
    if word == ANSWERED_NO:
        return [*filter(None, [beside_plan(result)])]
    return [beside_plan(result)] if word == IN_PART else findings.reasons(result)


def _sections(run: StoredRun) -> list[Section]:
    result = run.result
    ordered = [
        *acceptance.sections(result),
        findings.section(result),
        *capacity.sections(result),
        steady.section(run),
    ]
    ordered += [*pointstage.fullness(result), *stages.sections(run)]
    ordered += [conditions.drive(result), conditions.test(result)]
    ordered.append(conditions.host(run))
    ordered.append(
        conditions.provenance(run)
    )  # last, because it lists the files that other sections found missing
    # If several sections have the same title, add a number to it.
    sections = [*ordered, conditions.glossary()]
    titles = Counter(section.title for section in sections)
    seen: Counter[str] = Counter()
    found = []
    for section in sections:
        seen[section.title] += 1
        of = titles[section.title]
        number = f", {seen[section.title]} of {of}" if of > 1 else ""
        found.append(replace(section, title=section.title + number))
    return found


_SQL_TYPES = {"str": "VARCHAR", "Int64": "BIGINT", "Float64": "DOUBLE"}


def parquet_bytes(table: Tidy, *, run_id: str, version: str) -> bytes:
    """Return the results as Parquet; its metadata has the schema version, the tool and the run.

    DuckDB writes to a file name and follows links, so the file is made in a new temporary
    directory. Raises HostLacks if DuckDB is not installed.
    """
    with TemporaryDirectory(prefix="ssdbench-") as directory:
        path = Path(directory) / "table.parquet"
        text = Path(directory) / "table.csv"
        text.write_text(_quoted_rows(table), encoding="utf-8")
        types = {name: _SQL_TYPES[kind] for name, kind in RESULT_TYPES.items()}
        columns = ", ".join(f"{quoted(name)}: {quoted(kind)}" for name, kind in types.items())
        origin = {"schema_version": str(SCHEMA), "tool": f"ssdbench {version}", "run_id": run_id}
        metadata = ", ".join(f"{name}: {quoted(value)}" for name, value in origin.items())
        order = (
            f"COPY (SELECT * FROM read_csv({pattern(str(text))}, columns = {{{columns}}}, "
            "header = false, auto_detect = false, delim = ',', quote = '\"', escape = '\"', "
            f"nullstr = '', allow_quoted_nulls = false)) TO {quoted(str(path))} "
            f"(FORMAT parquet, COMPRESSION zstd, KV_METADATA {{{metadata}}})"
        )
        with connection(threads=1) as database:
            interruptible(database, lambda: database.execute(order))
        return path.read_bytes()


QUOTE = '"'


def _quoted_rows(table: Tidy) -> str:
    """Return rows as CSV with every value in quotes; a missing value is an empty cell."""
    columns = []
    for column in table.columns:
        words = {v: "" if v is None else f'"{v.replace(QUOTE, QUOTE * 2)}"' for v in set(column)}
        columns.append([words[value] for value in column])
    return "".join(",".join(row) + "\n" for row in zip(*columns, strict=True))
