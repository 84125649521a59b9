"""Define manifest.json: the inputs of a run, which a resume reads and checks."""

import platform
from collections.abc import Sequence
from hashlib import sha256
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from pydantic import model_validator

from ssdbench import __version__
from ssdbench.engine.journal import utc_now
from ssdbench.engine.stage import Limits
from ssdbench.host.facts import host_facts
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


def manifest(
    *,
    run_id: str,
    title: str,
    argv: Sequence[str],
    profile_name: str,
    profile_text: str,
    target: TargetInfo,
    seed: int,
    limits: Limits,
    consent: Consent,
    endurance_tb: float | None = None,
    rated: Rated = Rated(),  # noqa: B008 - frozen
    counted_on: str = "",
    generator: str = "",
    budget: Budget | None = None,
    whole_profile_text: str = "",
    beside: str = "",
) -> Manifest:
    """Make the manifest of a run that is about to begin.

    `generator` is a text such as `fio 3.33` or `ssdb_slam, random fills by fio 3.33`. If one
    command measures several drives, `beside` names the other drives that use the host at the same
    time.
    """
    _, fio, number = generator.rpartition("fio ")
    return Manifest(
        run_id=run_id,
        title=title,
        created_at=utc_now(),
        ssdbench_version=__version__,
        versions={**versions(), **({"fio": number} if fio else {})},
        argv=tuple(argv),
        profile_name=profile_name,
        profile_text=profile_text,
        profile_sha256=sha256(profile_text.encode()).hexdigest(),
        whole_profile_text=whole_profile_text if budget else "",
        target=target,
        consent=consent,
        endurance_tb=endurance_tb,
        rated=rated,
        counted_on=counted_on,
        seed=seed,
        max_time_s=limits.max_time_s,
        max_writes_bytes=limits.max_writes_bytes,
        budget=budget,
        host=host_facts()
        | ({"generator": generator} if generator else {})
        | ({"other drives": beside} if beside else {}),
    )


def versions() -> dict[str, str]:
    """Return the versions of ssdbench, Python and the packages that compute results."""
    found = {"ssdbench": __version__, "python": platform.python_version()}
    for package in PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            found[package] = "not installed"
    return found
