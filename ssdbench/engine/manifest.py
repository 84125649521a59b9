"""Define manifest.json: the inputs of a run, which a resume reads and checks."""

import platform
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from pydantic import model_validator

from ssdbench import __version__
from ssdbench.engine.stage import Limits
from ssdbench.model.base import Model
from ssdbench.model.profile import Rated
from ssdbench.model.result import SCHEMA, Budget, require_schema
from ssdbench.model.target import Consent, TargetInfo

PACKAGES = ("numpy", "pandas", "pydantic", "matplotlib", "duckdb")


class Manifest(Model):
    """Store everything that a run was given: command line, profile, target, consent, limits."""

    schema_version: int = SCHEMA
    run_id: str
    title: str
    created_at: str
    ssdbench_version: str
    versions: dict[str, str]
    argv: tuple[str, ...] = ()
    profile_name: str
    profile_text: str
    profile_sha256: str
    whole_profile_text: str = ""  # the profile before --budget or --max-wear; "" without
    target: TargetInfo
    consent: Consent = Consent()
    endurance_tb: float | None = None  # rated terabytes; overrides the profile's
    rated: Rated = Rated()  # figures from the data sheet, for estimates and never for a result
    counted_on: str = ""  # the rates in the estimates, and their source
    seed: int
    max_time_s: float | None = None
    max_writes_bytes: int | None = None
    budget: Budget | None = None  # the given time, to which the profile was shortened
    host: dict[str, str] = {}
    lasting: tuple[dict[str, str], ...] = ()  # changes that stay after the run

    @model_validator(mode="before")
    @classmethod
    def _of_this_schema(cls, stored: Any) -> Any:
        """Refuse a manifest of an older schema. Raises UsageError with the version to use."""
        return require_schema(stored, "the manifest of the run")

    @property
    def limits(self) -> Limits:
        """Return the limits of the run."""
        return Limits(self.max_time_s, self.max_writes_bytes)


def versions(generator: str = "") -> dict[str, str]:
    """Return the versions of ssdbench, Python, the packages that compute results, and fio.

    `generator` is a text such as `fio 3.33` or `ssdb_slam, random fills by fio 3.33`.
    """
    found = {"ssdbench": __version__, "python": platform.python_version()}
    for package in PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            found[package] = "not installed"
    _, fio, number = generator.rpartition("fio ")
    return found | ({"fio": number} if fio else {})
