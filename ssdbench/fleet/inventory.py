"""Read FLEET.yaml: hosts, drives, limits. Each mistake in the file is reported with its line."""

import re
from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path
from typing import Annotated, Self

from pydantic import Field, field_validator, model_validator

from ssdbench.errors import UsageError
from ssdbench.foreign import plain, read_regular, real
from ssdbench.model.base import Model
from ssdbench.model.loading import load
from ssdbench.model.quantity import Seconds
from ssdbench.sim import spec

NAME = r"^[A-Za-z0-9][A-Za-z0-9._-]*$"
ADDRESS = r"^[A-Za-z0-9_\[][A-Za-z0-9_.:@%\]-]*$"  # "-" is not first: ssh would read an option
Name = Annotated[str, Field(pattern=NAME, max_length=64)]
MOST_HOSTS = 20_000
_RANGE = re.compile(r"\[(\d+)-(\d+)\]")
OVERRIDES = (
    "overwrite-signatures", "overwrite-data", "accept-shared", "accept-unproven",
    "accept-wear",
)  # fmt: skip


class Host(Model):
    """A host with drives; `name` may contain one range, such as r1n[01-40], for many hosts."""

    name: str = Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._\[\]-]*$", max_length=64)
    address: str = Field(default="", pattern=rf"^$|{ADDRESS}")  # address for ssh; default: the name
    rack: Name = "rack"

    @property
    def ssh(self) -> str:
        """Return the address that ssh connects to: `address` or, if it is empty, the name."""
        return self.address or self.name

    def expanded(self) -> list["Host"]:
        """Return one host for each number of the range in its name, such as r1n01 to r1n40.

        Raises ValueError.
        """
        found = _RANGE.search(self.name)
        if found is None:
            _require_name(self.name)
            return [self]
        low, high = int(found[1]), int(found[2])
        if self.address or low > high or high - low >= MOST_HOSTS:
            raise ValueError(
                f"{self.name}: a range must increase, give at most {MOST_HOSTS} hosts, and have no "
                "address"
            )
        width = len(found[1])
        head, tail = self.name[: found.start()], self.name[found.end() :]
        _require_name(head + found[1] + tail)
        names = (f"{head}{number:0{width}}{tail}" for number in range(low, high + 1))
        return [Host(name=name, rack=self.rack) for name in names]


def _require_name(name: str) -> None:
    if not re.fullmatch(NAME, name):
        raise ValueError(f"{name} is not a host name; it may have one range, such as [01-40]")


class Wanted(Model):
    """Shell patterns (*, ?, [a-z]) that select drives; a drive must match every pattern."""

    host: str = "*"
    model: str = "*"
    serial: str = "*"
    identity: str = "*"
    size_tb: float | None = Field(default=None, gt=0)  # unit: 10**12 bytes; matches within 1 %

    @property
    def is_open(self) -> bool:
        """Return whether no pattern of a drive is given, so that all drives match."""
        return self.size_tb is None and {self.model, self.serial, self.identity} == {"*"}


class Limits(Model):
    """How many drives are measured at the same time, and how much power they may take."""

    at_once: int = Field(default=64, ge=1, le=256)
    per_host: int = Field(default=1, ge=1, le=64)
    per_rack: int = Field(default=1000, ge=1)
    rack_watts: float | None = Field(default=None, gt=0)
    drive_watts: float = Field(default=25.0, gt=0)


class Engine(Model):
    """The Dask scheduler of the fleet; without an address, it runs inside `ssdbench fleet run`."""

    scheduler: str = ""
    ca: str = ""
    certificate: str = ""
    key: str = ""

    @property
    def files(self) -> dict[str, str]:
        """Return the given TLS files by the names of their keys: `ca`, `certificate`, `key`."""
        named = {"ca": self.ca, "certificate": self.certificate, "key": self.key}
        return {name: file for name, file in named.items() if file}

    def beside(self, path: Path) -> "Engine":
        """Return a copy whose relative file names start at the directory of FLEET.yaml (`path`)."""
        found = {name: str(path.absolute().parent / file) for name, file in self.files.items()}
        return self.model_copy(update=found)


class Fleet(Model):
    """The content of FLEET.yaml."""

    title: Name
    profile: str = Field(min_length=1)
    hosts: tuple[Host, ...] = Field(min_length=1)
    drives: tuple[Wanted, ...] = ()
    targets: tuple[str, ...] = ()  # simulated drives instead of `drives`; each host measures all
    exclude: tuple[Wanted, ...] = ()
    consent: str = ""  # file in the same directory, with an identity per line
    accept: tuple[str, ...] = ()  # options of OVERRIDES, without the leading dashes
    runs: str = Field(default="/var/lib/ssdbench/fleet", pattern=r"^/[^\n\x00]+$")
    become: tuple[str, ...] = ()  # command to become root, such as [sudo, -n]
    ssdbench: tuple[str, ...] = ("ssdbench",)  # the command on a host
    ssh: tuple[str, ...] = ()  # more options of ssh, such as [-i, KEY]
    limits: Limits = Limits()
    canary: int = Field(default=1, ge=0)
    look_every_s: Seconds = Field(default=300.0, alias="look_every")  # between two polls of one run
    give_up_after_s: Seconds = Field(default=86_400.0, alias="give_up_after")  # without answer
    engine: Engine = Engine()

    @field_validator("targets", mode="before")
    @classmethod
    def _several(cls, targets: object) -> object:
        return (targets,) if isinstance(targets, str) else targets

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if bool(self.drives) == bool(self.targets):
            raise ValueError("give either drives or targets")
        for target in self.targets:
            if not target.startswith(spec.PREFIX):
                raise ValueError(
                    f"targets: {target} is not a simulated drive (sim:…); name real ones in drives"
                )
            try:
                spec.parse(target)
            except UsageError as error:
                raise ValueError(f"targets: {error.message}") from error
        for name in self.accept:
            if name not in OVERRIDES:
                raise ValueError(f"accept: {name} is not one of {', '.join(OVERRIDES)}")
        for one in self.drives:
            if one.is_open:
                raise ValueError(
                    "drives: each entry needs a model, a serial, an identity or a size"
                )
        if self.limits.rack_watts is not None and self.limits.rack_watts < self.limits.drive_watts:
            raise ValueError("limits: rack_watts is less than one drive needs (drive_watts)")
        _require_hosts(self.hosts)
        return self

    @property
    def every_host(self) -> list[Host]:
        """Return all hosts; an entry whose name has a range becomes one host for each number."""
        return [one for host in self.hosts for one in host.expanded()]


def _require_hosts(hosts: Sequence[Host]) -> None:
    """Raise ValueError if a host is given twice, or if there are more than MOST_HOSTS."""
    every: list[Host] = []
    for host in hosts:
        every += host.expanded()
        if len(every) > MOST_HOSTS:
            raise ValueError(f"hosts: there may be at most {MOST_HOSTS} hosts")
    seen: dict[str, str] = {}
    for host in every:
        for name in {host.name, host.ssh}:
            if name in seen and seen[name] != host.name or host.name in seen:
                raise ValueError(f"hosts: {name} is given twice")
        seen[host.ssh] = seen[host.name] = host.name


def read_fleet(path: Path) -> Fleet:
    """Read FLEET.yaml. Raises UsageError, ProfileError with every mistake and its line."""
    fleet = load(_text(path), str(path), Fleet)
    if fleet.limits.per_host > 1:  # per_host > 1 is allowed only with --local
        raise UsageError(
            f"{path}: limits: per_host is {fleet.limits.per_host}, but a host does one run at a "
            "time, because two runs would disturb each other",
            hint="Remove per_host: the drives of a host are measured one after another. On the "
            "host itself, `ssdbench run --side-by-side` tests whether they can be measured at the "
            "same time.",
        )
    return fleet.model_copy(update={"engine": fleet.engine.beside(path)})


def read_consent(fleet: Fleet, path: Path) -> frozenset[str]:
    """Read the identities in the consent file; none if no file is given. Raises UsageError."""
    if not fleet.consent:
        return frozenset()
    lines = [
        line.partition(" #")[0].strip() for line in _text(path.parent / fleet.consent).split("\n")
    ]
    return frozenset(line for line in lines if line and not line.startswith("#"))


def consent_draft(drives: Sequence[tuple[str, str]]) -> str:
    """Return a consent file that lists each drive's identity and description, all commented out."""
    head = "# Remove the first # of each drive that may be erased.\n"
    return head + "".join(f"#{plain(one, len(one))}  # {plain(is_)}\n" for one, is_ in drives)


def run_name(identity: str, model: str, profile_text: str) -> str:
    """Return the name of a drive's run: the drive's model, and hashes of identity and profile."""
    slug = re.sub(r"[^a-z0-9]+", "-", model.lower()).strip("-")[:24] or "drive"
    parts = (sha256(part.encode()).hexdigest() for part in (identity, profile_text))
    return "-".join([slug, *(digest[:12] for digest in parts)])


def _text(path: Path) -> str:
    try:
        data = read_regular(real(path))
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else "this is not a file name"
        raise UsageError(f"{path} cannot be read: {why}") from error
    if len(data) > 1 << 24:
        raise UsageError(f"{path} is larger than 16 MiB")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise UsageError(f"{path} is not UTF-8 text", hint="Save it as UTF-8.") from error
