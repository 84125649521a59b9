"""Define findings about the course of a run, such as a run that was cut short or resumed."""

from ssdbench.model.finding import Code, FindingKind, NoteKind
from ssdbench.units import counted, listed

GO_ON = (
    "Continue with `ssdbench resume`; all measurements are kept. If a limit ended the run, raise "
    "that limit."
)


class CutShort(FindingKind):
    """A stage ended before all its repeats (or other units of its work) were done."""

    code = Code.CUT_SHORT
    remedy = GO_ON

    done: int
    planned: int | None  # None if the number is not known in advance
    units: str  # what units of the stage are called: repeats, rounds, fills
    why: str  # a clause

    def message(self) -> str:
        of = "of its" if self.planned is None else f"of {self.planned:,}"
        return f"the stage ended early, with {self.done:,} {of} {self.units} finished: {self.why}"


class RunCutShort(FindingKind):
    """The run ended before its last stage."""

    code = Code.CUT_SHORT
    remedy = GO_ON

    at_stage: int  # from 1
    stages: int
    why: str

    def message(self) -> str:
        return f"the run ended early, in stage {self.at_stage} of {self.stages}: {self.why}"


class PlannedAgain(NoteKind):
    """After the warm-up, measured rates were used to cut the profile again to the limit `given`."""

    code = Code.PLANNED_AGAIN

    given: str
    cuts: tuple[str, ...] = ()

    def message(self) -> str:
        cuts = "; ".join(self.cuts) or "nothing is left out"
        return f"the rates of the warm-up changed the plan for {self.given}: {cuts}"


class Resumed(NoteKind):
    """The run was interrupted and continued later.

    The finding is made before any stage is repeated.

    `reason` says whether the drive still holds the data that the run wrote. `repeated` holds titles
    of stages whose results are no longer used.
    """

    code = Code.RESUMED
    remedy = (
        "A warm-up is repeated before anything new is measured; the repeated stage says "
        "whether the rate became steady."
    )

    reason: str
    repeated: tuple[str, ...] = ()

    def message(self) -> str:
        again = ", ".join(title[:1].lower() + title[1:] for title in self.repeated)
        return f"the run was resumed: {self.reason}" + (
            f"; results that no longer count: {again}" if again else ""
        )


class MeasuredAgain(NoteKind):
    """Finished repeats (or other units) are no longer used: the drive is in another state now."""

    code = Code.RESUMED

    finished: int
    units: str  # what units of the stage are called

    def message(self) -> str:
        return (
            f"{self.finished:,} finished {self.units} no longer count, because the drive is no "
            "longer in the state in which they were measured"
        )


class NotApplicable(NoteKind):
    """The drive cannot do a point or a test, such as 512 B requests on 4 KiB blocks."""

    code = Code.NOT_APPLICABLE
    remedy = (
        "Nothing is wrong with the drive; leave the point out of the profile to hide this note."
    )

    what: str  # name of the point or test
    why: str

    def message(self) -> str:
        return f"{self.what} is not applicable: {self.why}"


class PlanWithoutPoint(FindingKind):
    """The run has no point that the capacity plan can use."""

    code = Code.PLAN
    remedy = "Measure such a point, or change `block` and `read` of `plan`."

    def message(self) -> str:
        return (
            "no point was measured that the plan can use: it needs a random workload over the "
            "whole drive with the plan's block size and read share"
        )


class OutsidePlan(NoteKind):
    """Points that the capacity plan does not use are not validated."""

    code = Code.PLAN
    remedy = "Do not plan on the other points: the findings of each say why."

    used: tuple[str, ...]  # names of the points that the plan uses
    others: int

    def message(self) -> str:
        are = "is" if self.others == 1 else "are"
        return (
            f"the verdict covers only what the plan uses ({listed(self.used)}); "
            f"{counted(self.others, 'other point')} {are} not validated"
        )
