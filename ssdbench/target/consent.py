"""Consent to destroy what a target holds: for one target, by its identity."""

import shlex

from ssdbench.errors import TargetRefused
from ssdbench.model.target import TargetInfo, TargetKind


def needed(info: TargetInfo) -> bool:
    """Whether a target may only be written with consent.

    A simulated drive is ours, and the guard lets no file pass that holds anything of the user's.
    """
    return info.kind not in (TargetKind.SIMULATED, TargetKind.FILE)


def require(info: TargetInfo, destroy_id: str | None) -> None:
    """Raise TargetRefused, with what to type, unless `destroy_id` is exactly the target's identity.

    Nothing is trimmed or compared in part: half a serial number is another drive.
    """
    if not needed(info) or destroy_id == info.id:
        return
    option = f"--destroy {shlex.quote(info.id)}"
    if destroy_id is None:
        raise TargetRefused(
            info.name,
            ["everything on it would be destroyed, and nobody has agreed to that"],
            hint=f"if nothing on it is needed, add {option}",
        )
    raise TargetRefused(
        info.name,
        [f"--destroy names {destroy_id!r}, but this is {info.id!r}"],
        hint=f"check that it is the right drive; for this one it would be {option}",
    )
