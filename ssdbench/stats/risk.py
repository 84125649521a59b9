"""State how often a bound was too high on simulated drives whose true rate is known.

The counts come from `nox -s judge-the-judges -- --published N --evidence KIND`, with seeds that
were not used to tune anything (docs/numbers.md has the tables). Drives that slow down only after
the run are counted separately, because nothing in the run can predict a later slowdown.
"""

from dataclasses import dataclass

from ssdbench.stats.distributions import binomial_upper_limit

WHOLE, SHORT, HASTY = "whole", "short", "hasty"  # kinds of evidence, from best to worst


@dataclass(frozen=True, slots=True)
class Risk:
    """Hold how many bounds were more than 5 % above the true sustained rate of the drive."""

    wrong: int
    of: int  # number of drives
    family: str  # the family of drives with the largest share of wrong bounds, or limit of it
    family_wrong: int
    family_of: int
    later: int  # drives whose bound was right until the run ended and wrong afterwards
    later_of: int  # drives that step down or get hot late
    validated: bool = True  # whether only VALIDATED numbers are counted

    @property
    def sentence(self) -> str:
        """Return the risk as one sentence for a capacity plan."""
        what = "VALIDATED bound" if self.validated else "bound (none VALIDATED)"
        text = (
            f"for the worst family of the zoo ({self.family}) the {what} was > 5 % optimistic for "
            f"{_share(self.family_wrong, self.family_of)}; over all families for "
            f"{_share(self.wrong, self.of)}"
        )
        if self.later:
            text += (
                f"; of {self.later_of} drives that step down or get hot late, {self.later} did so "
                "after the run, which no evidence foresees"
            )
        return text


def _share(wrong: int, of: int) -> str:
    """Return a share in words, such as `1 drive in 12 (8 of 96; 95 % limit: 1 in 7)`."""
    limit = 1 / binomial_upper_limit(wrong, of)
    seen = f"1 drive in {of / wrong:.0f}" if wrong else "no drive"
    return f"{seen} ({wrong} of {of:,}; 95 % limit: 1 in {limit:.0f})"


KINDS = (WHOLE, SHORT, HASTY)
RISKS = {
    WHOLE: Risk(1, 287, "stalls", 1, 18, 24, 62),
    SHORT: Risk(1, 48, "late-heat", 1, 2, 6, 10),
    HASTY: Risk(3, 74, "cold-collapse", 3, 5, 16, 17, validated=False),
}


def risk(evidence: str) -> str:
    """Return, in one sentence, the risk of bounds that rest on this kind of evidence."""
    return RISKS[evidence].sentence
