"""Define findings about SNIA PTS tests, such as deviations from the standard."""

from ssdbench.model.finding import Code, FindingKind, NoteKind, WarningKind
from ssdbench.model.findings.repeats import QueueFull
from ssdbench.units import listed


class PtsScaled(FindingKind):
    """All durations of the standard were shortened."""

    code = Code.QUICK_RULE
    remedy = "Set `scale: 1` for anything but a demonstration."

    scale: float

    def message(self) -> str:
        return f"all durations of the standard were scaled by {self.scale:g}"


class PtsAverages(FindingKind):
    """The result is an average without a lower bound; its steady-state rule proves too little."""

    code = Code.QUICK_RULE
    remedy = (
        "Use the result to compare drives; to plan, use the profile `pessimistic`. "
        "docs/steady-state.md says how often the rule of five rounds is optimistic."
    )

    where: str = ""  # where the rule held: "in rounds 4 to 8"; empty for a test without a rule

    def message(self) -> str:
        what = (
            f"steady under the PTS rule {self.where}, which does not prove steady state"
            if self.where
            else "the test has no rule for steady state"
        )
        return f"{what}: a PTS-style result is an average, without a lower bound to plan on"


class PtsNotSteady(FindingKind):
    """The PTS rule of five rounds did not show steady state."""

    code = Code.NOT_STEADY
    remedy = "See the convergence plots; the standard lets you go on or stop."

    where: str  # "in 25 rounds; the last five are shown"

    def message(self) -> str:
        return f"steady state not reached {self.where}"


class PtsWarmUpNotSteady(FindingKind):
    """The writes before the first round did not become steady."""

    code = Code.NOT_STEADY
    remedy = "See the plot of the warm-up. The report also shows the rounds after a failed warm-up."

    def message(self) -> str:
        return "the writes before the first round did not become steady"


class PtsPaused(WarningKind):
    """The test was resumed, so the rounds after the pause are not used."""

    code = Code.RESUMED
    remedy = "Run the test without a break for a result that others can compare."

    rounds: tuple[int, ...]  # rounds that are not judged

    def message(self) -> str:
        numbers = listed([str(number) for number in self.rounds])
        rounds, were = ("round", "was") if len(self.rounds) == 1 else ("rounds", "were")
        return (
            f"the run paused, which the standard does not allow; {rounds} {numbers} after the "
            f"pause {were} not counted"
        )


class PausesBusy(WarningKind):
    """The drive was still busy in the planned pauses of a test."""

    code = Code.DISTURBED
    remedy = (
        "The queue may be too deep for the rate: then requests are still waiting when a planned "
        "pause begins, and the drive works on them during the pause."
    )

    phase: str

    def message(self) -> str:
        return f"the drive was still busy in most of the planned pauses of the phase {self.phase!r}"


class PtsQueueFull(NoteKind):
    """Requests of a phase had to wait for a free slot of the drive's queue."""

    code = Code.QUEUE_FULL
    remedy = QueueFull.remedy

    phase: str
    submit_percent: float  # of the latency

    def message(self) -> str:
        return (
            f"phase {self.phase!r}: requests spent {self.submit_percent:.0f} % of their latency "
            "waiting before the kernel took them, mostly because the drive's queue was full. The "
            "latencies of the phase include this wait; latencies over time are left out"
        )
