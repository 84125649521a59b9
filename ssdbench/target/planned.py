"""Store the target as it was when `plan` ran, so that `run` notices a changed drive."""

from hashlib import sha256

from ssdbench.errors import HostLacks, TargetRefused
from ssdbench.model.base import Model
from ssdbench.model.target import TargetInfo, TargetKind
from ssdbench.target import guard

# Keys of facts in TargetInfo.facts that a format or a hidden area of the drive would change.
FORMAT_FACTS = ("LBA format", "protection", "host protected area", "unallocated NVM capacity")
UNCHANGING = {
    "id": "the identity",
    "size_bytes": "the size in bytes",
    "model": "the model",
    "serial": "the serial number",
    "firmware": "the firmware",
    "logical_block_bytes": "the logical block in bytes",
    "physical_block_bytes": "the physical block in bytes",
}


class Planned(Model):
    """Store a target and the profile planned for it; schema version 1."""

    schema_version: int = 1
    profile_sha256: str
    target: TargetInfo
    signatures: tuple[str, ...] = ()
    partitions: tuple[str, ...] = ()

    def changes(self, now: "Planned") -> list[str]:
        """Return a sentence for each property that changed since the plan; empty if none did."""
        then, today = self.target, now.target
        values = [
            *((text, getattr(then, n), getattr(today, n)) for n, text in UNCHANGING.items()),
            *((f"the {n}", then.facts.get(n), today.facts.get(n)) for n in FORMAT_FACTS),
        ]
        sentences = [
            f"{what} was {_shown(was)} when it was planned and is now {_shown(is_now)}"
            for what, was, is_now in values
            if was != is_now
        ]
        for name, was, is_now in (
            ("signatures", self.signatures, now.signatures),
            ("partitions", self.partitions, now.partitions),
        ):
            if was != is_now:
                sentences.append(
                    f"its {name} were {_listed(was)} when it was planned and are now "
                    f"{_listed(is_now)}"
                )
        if self.profile_sha256 != now.profile_sha256:
            sentences.append("the profile is not the one that was planned")
        return sentences

    def require_unchanged(self, info: TargetInfo, profile_text: str) -> None:
        """Raise TargetRefused with all changes if the target or profile changed since the plan."""
        if changed := self.changes(planned(info, profile_text)):
            raise TargetRefused(
                info.name, changed, hint="run `ssdbench plan` again and check what changed"
            )


def planned(info: TargetInfo, profile_text: str) -> Planned:
    """Record a target as it is now. Raises HostLacks if signatures are unreadable."""
    signatures: list[str] = []
    partitions: list[str] = []
    if info.kind not in (TargetKind.SIMULATED, TargetKind.FILE):
        try:
            host = guard.LiveHost(info)
            signatures, partitions = host.signatures(), host.partitions()
        except OSError as error:
            raise HostLacks(
                f"cannot tell what {info.name} holds: {error.strerror}", hint="run as root"
            ) from error
    return Planned(
        profile_sha256=sha256(profile_text.encode()).hexdigest(),
        target=info,
        signatures=tuple(signatures),
        partitions=tuple(partitions),
    )


def _shown(value: object) -> str:
    return str(value) if value not in (None, "") else "unknown"


def _listed(values: tuple[str, ...]) -> str:
    return ", ".join(values) or "none"
