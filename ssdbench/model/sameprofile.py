"""Whether two runs were asked for the same: a hash of the profile as it was run."""

from hashlib import sha256

from ssdbench.errors import ProfileError
from ssdbench.model.loading import load_profile
from ssdbench.model.result import RunResult

# What says nothing of how a drive is measured.
_APART = {"title", "target", "seed", "plan", "accept"}


def profile_hash(result: RunResult) -> str:
    """SHA-256 of what was asked of the drive: the same for all drives whose numbers may be mixed.

    Comments, spelling, title, target, seed, plan and what is accepted do not count; defaults and
    a budget do. A profile that this version cannot read is the same as itself only.
    """
    try:
        asked = load_profile(result.profile_text, "the stored profile")
        text = asked.model_dump_json(exclude=_APART)
    except ProfileError:
        text = result.profile_text
    budget = result.budget
    cuts = [] if budget is None else [f"{budget.seconds:g}", *budget.cuts]
    return sha256("\n".join([text, *cuts]).encode()).hexdigest()
