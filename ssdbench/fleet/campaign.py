"""One `fleet run`: what is left to do, a canary first, then all the others; results come here."""

from collections.abc import Callable, Sequence

from ssdbench.errors import SsdbenchError, UsageError
from ssdbench.fleet import contract, crew
from ssdbench.fleet.contract import Job
from ssdbench.fleet.crew import Work
from ssdbench.fleet.drive import Patience, Stage, State
from ssdbench.fleet.inventory import Fleet
from ssdbench.fleet.plan import Plan
from ssdbench.fleet.reach import Reach, Silent
from ssdbench.fleet.records import Records
from ssdbench.units import counted

HERE = "its result is here already"


def campaign(
    fleet: Fleet,
    plan: Plan,
    reach: Reach,
    records: Records,
    patience: Patience,
    tell: Callable[[str], None],
) -> dict[str, State]:
    """The last state of every drive, by the name of its run.

    Raises SsdbenchError when the canary came to no result.
    """
    jobs = {job.name: job for job in plan.jobs}
    here = records.measured()
    ends = {name: State(Stage.MEASURED, said=HERE) for name in jobs if name in here}
    left = [job for job in plan.jobs if job.name not in here]
    for job in left:
        records.note(job, State(Stage.WAITING))

    def hear(name: str, state: State) -> None:
        job = jobs[name]
        if state.stage is Stage.MEASURED:
            state = _fetched(job, state, reach, records)
        records.note(job, state)
        if state.stage.is_end or state.stage is Stage.SILENT:
            tell(f"{job.host} {job.target} {job.serial}: {state.stage}: {state.said}".rstrip(": "))
        if state.stage.is_end:
            ends[name] = state

    with crew.crew(fleet.engine, crew.tokens(plan.jobs, fleet.limits)) as client:
        for some, is_canary in _turns(left, 0 if here else fleet.canary):
            work = [Work(job, reach, patience) for job in some]
            crew.do(client, work, hear, records.asked_to_stop)
            bad = [job for job in some if ends[job.name].stage is not Stage.MEASURED]
            if is_canary and bad and len(some) < len(left):
                why = ends[bad[0].name]
                raise SsdbenchError(
                    f"the canary, {bad[0].host} {bad[0].target}, came to no result: "
                    f"{why.stage}: {why.said}; {counted(len(left) - len(some), 'drive')} "
                    "not begun",
                    hint="Mend that, then call it again.",
                )
    return ends


def _turns(left: Sequence[Job], canary: int) -> list[tuple[Sequence[Job], bool]]:
    turns = [(left[:canary], True), (left[canary:], False)]
    return [(jobs, first) for jobs, first in turns if jobs]


def _fetched(job: Job, state: State, reach: Reach, records: Records) -> State:
    """The state once the result is here. A host that does not send it is asked by the next call."""
    try:
        files = contract.fetch(job, reach)
        contract.require_of(job, files)
        records.store(job, files)
        return state
    except (Silent, UsageError) as error:
        return State(Stage.GIVEN_UP, said=f"measured, but not fetched: {error.message}")
