"""Make a result from the directory of a run that was killed, crashed, or is still running.

Nothing is measured, and the target is not needed: a finished stage has a stored result, and an
unfinished stage gets a result from its finished units. The result of such a run gives no number
that a plan can use.
"""

from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from types import SimpleNamespace
from typing import cast

from ssdbench.engine.journal import Journal, Kind, Record, StageJournal, believed_records
from ssdbench.engine.manifest import Manifest
from ssdbench.engine.session import TargetSession
from ssdbench.engine.stage import AnyStage, Context, Ended, Limits, Meter
from ssdbench.engine.store import RunStore, load
from ssdbench.engine.verdict import about_plan, about_target, run_verdict
from ssdbench.errors import SsdbenchError, UsageError
from ssdbench.model import rundirectory
from ssdbench.model.base import Model
from ssdbench.model.findings.course import CutShort, RunCutShort
from ssdbench.model.found import FillDone, Found, WarmUp
from ssdbench.model.loading import load_profile
from ssdbench.model.result import RunResult, StageResult
from ssdbench.stats.planning.acceptance import with_accepted
from ssdbench.suite.assemble import stages
from ssdbench.suite.run import order_of

KILLED = "it ended in mid-run without a message: a kill, a crash or a power cut"


def unended(directory: Path, *, why: str = KILLED) -> RunResult:
    """Return the result of an unfinished run, from the files in its directory.

    `why` is a clause that says why the run ended. Raises UsageError if the manifest, profile or
    journal cannot be read.
    """
    store = RunStore.open(directory)
    kept = load(directory / rundirectory.MANIFEST, Manifest)
    profile = load_profile(kept.profile_text, kept.profile_name)
    records, damaged = believed_records(directory)
    if damaged is not None:
        why = f"its journal is damaged in line {damaged}, so the lines from there on are ignored"
    elif not records:
        raise UsageError(
            f"{directory / rundirectory.JOURNAL} has no record",
            hint="The run never began; start a new one.",
        )
    order = order_of(kept, profile)
    planned = profile.model_copy(update={"plan": order.plan})
    info, chosen = kept.target, stages(planned, kept.target)
    meter = Meter(order.limits)
    for record in records:
        meter.restore(record.data)
    results: list[StageResult] = []
    for stage in chosen:
        if own := [record for record in records if record.stage == stage.name]:
            results.append(_stage(stage, store, kept, own, results, why))
    findings = [
        RunCutShort(len(results), len(chosen), why).finding(),
        *about_target(info),
        *about_plan(results, order.plan),
    ]
    result = RunResult(
        run_id=order.run_id,
        title=order.title,
        ssdbench_version=kept.ssdbench_version,
        started_at=records[0].at if records else kept.created_at,
        finished_at=None,
        target=info,
        profile_text=order.profile_text,
        seed=order.seed,
        verdict=run_verdict(info, results, findings, order.plan),
        findings=tuple(findings),
        stages=tuple(results),
        host=dict(order.host),
        settings=kept.lasting,
        bytes_written=meter.bytes_written,
        endurance_tb=order.plan.endurance_tb,
        budget=order.budget,
        interrupted=True,
    )
    return with_accepted(result, order.accept)


def _stage(
    stage: AnyStage,
    store: RunStore,
    kept: Manifest,
    own: Sequence[Record],
    before: Sequence[StageResult],
    why: str,
) -> StageResult:
    """Return the stored result of a finished stage, or a partial result from the finished units."""
    finished = {record.unit: record for record in own if record.kind is Kind.FINISHED}
    if "" in finished and (stored := store.read_stage(stage.name)) is not None:
        return stored
    place = store.stage(stage.name)
    done = []
    for unit, record in finished.items():
        path, checksum = f"{unit}/{rundirectory.UNIT_RECORD}", record.data.get("crc32")
        try:
            done.append(place.load(path, stage.record, checksum=checksum))
        except SsdbenchError:
            continue  # a damaged unit counts as not measured
    session = SimpleNamespace(info=kept.target, ceiling_iops=lambda workload: None)
    context = Context(
        session=cast(TargetSession, session),
        store=place,
        journal=StageJournal(cast(Journal, None), stage.name),
        emit=lambda event: None,
        interrupted=lambda: None,
        meter=Meter(Limits()),
        seed=kept.seed,
        run_path=store.path,
        results=tuple(before),
    )
    concluded = stage.conclude(context, done, Ended(why))
    cut = CutShort(len(done), None, stage.units_are, why).finding()
    first, last = own[0], own[-1]
    return StageResult(
        name=stage.name,
        title=stage.title,
        started_at=first.at,
        duration_s=_grown(first, last, "seconds"),
        wall_s=(datetime.fromisoformat(last.at) - datetime.fromisoformat(first.at)).total_seconds(),
        bytes_read=int(_grown(first, last, "bytes_read")),
        bytes_written=int(_grown(first, last, "bytes_written")),
        findings=tuple(
            finding if finding.stage else finding.model_copy(update={"stage": stage.name})
            for finding in (*concluded.findings, cut)
        ),
        complete=False,
        found=_with_seconds(concluded.found, store.path, own[-1]),
    )


def _grown(first: Record, last: Record, name: str) -> float:
    values = [record.data.get(name) for record in (first, last)]
    start, end = (value if isinstance(value, int | float) else 0 for value in values)
    return max(0, end - start)


def _with_seconds(found: Model, run: Path, last: Record) -> Found:
    """Add the CSV file of seconds of an unfinished fill or warm-up to the result of its stage."""
    at_work = run / rundirectory.STAGES / last.stage / last.unit
    seconds = [p.relative_to(run).as_posix() for p in sorted(at_work.rglob(rundirectory.SECONDS))]
    if seconds and isinstance(found, FillDone) and not found.seconds_csv:
        return found.model_copy(update={"seconds_csv": tuple(seconds)})
    if seconds and isinstance(found, WarmUp) and not found.seconds_csv:
        return found.model_copy(update={"seconds_csv": seconds[0]})
    return cast(Found, found)
