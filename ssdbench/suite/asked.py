"""What a user asks for, from the command line and the profile."""

from dataclasses import dataclass

from ssdbench.engine.stage import Limits
from ssdbench.errors import UsageError
from ssdbench.model.consent import Consent
from ssdbench.model.profile import Profile
from ssdbench.suite.assemble import stages as stages
from ssdbench.target.planned import Planned


@dataclass(frozen=True, slots=True)
class Asked:
    """What a user asks for, besides the profile."""

    profile: Profile
    profile_name: str  # for messages, such as profiles/demo.yaml
    profile_text: str
    target: str = ""  # overrides the profile's
    seed: int | None = None  # likewise
    limits: Limits = Limits()  # likewise, each on its own
    consent: Consent = Consent()
    endurance_tb: float | None = None  # overrides the profile's
    planned: Planned | None = None  # what `plan` saw, where the user brings it
    argv: tuple[str, ...] = ()

    @property
    def target_name(self) -> str:
        """The target, from the command line or the profile. Raises UsageError without one."""
        name = self.target or self.profile.target
        if not name:
            raise UsageError(
                f"{self.profile_name} names no target",
                hint="Add --target, such as --target sim:x25m-g2-160; see `ssdbench drives`.",
            )
        return name

    @property
    def all_limits(self) -> Limits:
        """The command line's limits, and the profile's where it sets none."""
        kept = self.profile.limits
        return self.limits.over(Limits(kept.max_time_s, kept.max_writes_bytes))
