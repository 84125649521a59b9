"""What a run was asked to do, as it is stored when it begins; `resume` needs nothing else."""

from ssdbench.model.base import Model
from ssdbench.model.target import TargetInfo

SCHEMA = 1


class Manifest(Model):
    """The first file of a run directory."""

    schema_version: int = SCHEMA
    run_id: str
    title: str
    ssdbench_version: str
    created_at: str  # ISO 8601, UTC
    profile_name: str  # file that the profile was read from
    profile_text: str
    profile_sha256: str
    target: TargetInfo
    seed: int
    max_time_s: float | None = None
    max_writes_bytes: int | None = None
    destroy_id: str | None = None  # the consent that was given, for this one drive
    overwrite_signatures: bool = False
    host: dict[str, str] = {}
