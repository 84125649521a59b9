"""Hold the request of a user, and the input from which stages are planned."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, Self

from pydantic import ValidationError

from ssdbench.engine.stage import Limits
from ssdbench.errors import Misplaced, ProfileError, SsdbenchError, UsageError
from ssdbench.model.loading import ANOTHER, misfit_error, mistake_in_words
from ssdbench.model.profile import Profile, Rated
from ssdbench.model.profile.sweeps import AccessOrder
from ssdbench.model.quantity import Extent
from ssdbench.model.target import Consent, TargetInfo
from ssdbench.model.workload import ActiveRange, Workload, is_map_unit
from ssdbench.target.planned import Planned


@dataclass(frozen=True, slots=True)
class Planning:
    """Hold the input of stages: profile, target, and how much of the drive is filled."""

    profile: Profile
    target: TargetInfo
    level_bytes: int  # that are filled, from the start of the drive

    @classmethod
    def of(cls, profile: Profile, target: TargetInfo) -> Self:
        """Make the input; the filled bytes of the profile become whole blocks of the target."""
        planned = cls(profile, target, target.size_bytes)
        level = Extent(percent=profile.fill_level_percent)
        return replace(planned, level_bytes=planned.length_of(level))

    @property
    def unit(self) -> tuple[int, str]:
        """Return the mapping unit in bytes and where the size comes from; 0 and "" if not known.

        The warm-up then proves by rates whether this unit is right. The unit is taken from the
        profile, else from a simulated drive's model, else from the write size in bytes that the
        drive recommends: the kernel's `minimum_io_size` (Documentation/ABI/stable/sysfs-block of
        Linux).
        """
        named = (
            (self.profile.unit_bytes or 0, "named by the profile"),
            (self.target.remap_unit_bytes, "of the model of the simulated drive"),
            (self.target.preferred_write_bytes, "the write that the drive recommends"),
        )
        return next(((size, source) for size, source in named if is_map_unit(size)), (0, ""))

    def length_of(self, extent: Extent) -> int:
        """Return the bytes of a part of the drive, limited to the filled bytes."""
        align = self.target.logical_block_bytes
        return min(extent.bytes_of(self.target.size_bytes, align_bytes=align), self.level_bytes)

    def workload(
        self, order: AccessOrder, block_bytes: int, length_bytes: int | None = None, **load: Any
    ) -> Workload:
        """Return a workload from the start of the drive, by default on the whole filled part.

        `length_bytes` limits the range, in whole blocks; `load` holds further fields, such as
        `iodepth`.
        """
        length = self.level_bytes if length_bytes is None else length_bytes
        return Workload(
            pattern=order.pattern,
            block_bytes=block_bytes,
            range=ActiveRange(offset_bytes=0, length_bytes=length // block_bytes * block_bytes),
            content=self.profile.content,
            **load,
        )


TB = 10**12


@dataclass(frozen=True, slots=True)
class RunRequest:
    """Hold everything that a user gives for a run: profile, options and consent."""

    profile: Profile
    profile_name: str  # for messages, such as profiles/demo.yaml
    profile_text: str
    # Each of these overrides the profile: target, seed, each limit, and rated endurance.
    target: str = ""
    seed: int | None = None
    limits: Limits = Limits()
    consent: Consent = Consent()
    endurance_tb: float | None = None
    rated: Rated = Rated()  # figures of the data sheet, each of which overrides the profile's
    max_wear_percent: float | None = None  # of the rated endurance
    planned: Planned | None = None  # a stored plan that the target must still fit
    argv: tuple[str, ...] = ()
    budget_s: float | None = None  # time for the whole run
    beside: str = ""  # whether other drives are measured at the same time, and why

    @property
    def target_name(self) -> str:
        """Return the name of the target. Raises UsageError if no target is named."""
        name = self.target or self.profile.target
        if not name:
            raise UsageError(
                f"{self.profile_name} names no target",
                hint="Add --target, such as --target sim:x25m-g2-160; see `ssdbench drives`.",
            )
        return name

    @property
    def all_rated(self) -> Rated:
        """Return the data sheet's figures from the command line, or else from the profile.

        Raises UsageError if a figure of the command line contradicts a figure of the profile.
        """
        try:
            return self.rated.over(self.profile.rated)
        except ValidationError as error:
            raise UsageError(
                "the figures of --rated contradict `rated` in the profile: "
                f"{mistake_in_words(error.errors(include_url=False)[0])}",
                hint="Check both against the data sheet.",
            ) from error

    @property
    def rated_endurance_tb(self) -> float | None:
        """Return the rated endurance from the command line, or else from the profile."""
        given, plan = self.rated.endurance_bytes, self.profile.plan
        kept = self.profile.rated.endurance_bytes
        tb = [None if size is None else size / TB for size in (given, kept)]
        return self.endurance_tb or tb[0] or plan.endurance_tb or tb[1]

    @property
    def all_limits(self) -> Limits:
        """Return the limits of the command line; missing limits come from the profile."""
        kept = self.profile.limits
        return self.limits.over(Limits(kept.max_time_s, kept.max_writes_bytes))

    @contextmanager
    def blamed_on_target(self) -> Iterator[None]:
        """Add the place in the profile to errors about the target, if the profile names it."""
        try:
            yield
        except UsageError as error:
            if self.target or not self.profile.target or isinstance(error, ProfileError):
                raise
            raise self._at(("target",), error) from error
        except SsdbenchError as error:
            if not self.target and self.profile.target:
                where = self._at(("target",), error).diagnostics[0]
                place = f"{where.file}:{where.line}:{where.column} names this target"
                error.hint = f"{error.hint}; {place}" if error.hint else place
            raise

    @contextmanager
    def blamed_on_profile(self) -> Iterator[None]:
        """Add the place in the profile to errors about a key of the profile."""
        try:
            yield
        except Misplaced as error:
            raise self._at(error.path, error) from error

    def _at(self, path: tuple[str | int, ...], error: SsdbenchError) -> ProfileError:
        mistakes = [(path, error.message)]
        hint = error.hint or ANOTHER
        return misfit_error(self.profile_text, self.profile_name, mistakes, hint=hint)
