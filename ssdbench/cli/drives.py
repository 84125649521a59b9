"""List drives (`drives`), and purge a drive that is no longer needed (`retire`)."""

import time
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import click

from ssdbench.cli.options import consent_options, json_option, target_argument
from ssdbench.cli.output import answer, document, table, tell
from ssdbench.errors import UsageError
from ssdbench.units import format_capacity

if TYPE_CHECKING:
    from ssdbench.cli.documents.machine import Device
    from ssdbench.model.target import Consent
    from ssdbench.target.guard import OneLook


LINE_EVERY_S = 2.0
FEW = 50  # with fewer devices, listing them needs no progress lines
MOST_REASONS = 20  # most per device; a file with hundreds of loop devices has hundreds of reasons


@click.command("drives")
@json_option
def drives(as_json: bool) -> None:
    """List block devices and simulated models as targets.

    For each block device, show its identity for --destroy, and every reason why ssdbench refuses
    to write to it.
    """
    from ssdbench.cli.documents.machine import Drives, ListedModel
    from ssdbench.host.sysfs import Sysfs
    from ssdbench.sim.spec import catalogue
    from ssdbench.target.guard import OneLook

    kernels = Sysfs().names("/sys/block")
    look = OneLook(kernels)
    devices = [found for name in _with_progress(kernels) if (found := _device(name, look))]
    models = catalogue()
    if as_json:
        listed = tuple(
            ListedModel.of(
                card,
                target=f"sim:{card.name}",
                published=dict(card.figures),
                simulated=dict(card.simulated),
            )
            for card in models
        )
        document(Drives(devices=tuple(devices), models=listed))
        return
    for device in devices:
        answer(f"{device.target}  {device.description}")
        for reason in device.reasons[:MOST_REASONS]:
            answer(f"    not writable: {reason}")
        if len(device.reasons) > MOST_REASONS:
            more = len(device.reasons) - MOST_REASONS
            answer(f"    not writable: and {more} more reasons, which --json lists")
        if device.unplannable:
            answer(f"    not plannable: {device.unplannable}")
        if device.id:
            answer(f"    id: {device.id}")
    if not devices:
        answer("this host has no block device with a size above 0")
    answer("")
    rows = []
    for card in models:
        figures = ", ".join(f"{name} {value:,.6g}" for name, value in [*card.figures.items()][:3])
        size = format_capacity(card.capacity_bytes)
        rows.append((f"sim:{card.name}", size, figures, card.title))
    answer(table(("simulated", "capacity", "published figures", "drive"), rows))


def _with_progress(kernels: Sequence[str]) -> Iterator[str]:
    """Yield the device names, and print progress lines if there are many devices."""
    told = time.monotonic()
    for done, kernel in enumerate(kernels):
        if len(kernels) > FEW and time.monotonic() - told >= LINE_EVERY_S:
            tell(f"looked at {done} of {len(kernels)} block devices")
            told = time.monotonic()
        yield kernel


def _device(name: str, look: "OneLook") -> "Device | None":
    """Return what is known of a block device; None if its size is 0 (an unused loop device)."""
    from ssdbench.cli.documents.machine import Device
    from ssdbench.errors import SsdbenchError
    from ssdbench.host.sysfs import node_of
    from ssdbench.target import guard
    from ssdbench.target.evidence import unplannable
    from ssdbench.target.inspect import inspect

    node = node_of(name)
    if look.sysfs.number(f"/sys/block/{name}/size") == 0:
        return None
    try:
        info = inspect(node, sysfs=look.sysfs)
    except SsdbenchError as error:
        return Device(target=node, description="", id="", reasons=(error.message,))
    try:
        refusals = guard.objections(info, guard.LiveHost(info, look=look))
        reasons = [objection.reason for objection in refusals]
        overridable = bool(reasons) and all(objection.option for objection in refusals)
    except OSError as error:
        overridable = False
        reasons = [f"it cannot be examined: {error.strerror}"]
    words = (format_capacity(info.size_bytes), info.kind.value, info.model, info.serial)
    return Device.of(
        info,
        target=node,
        reasons=tuple(reasons),
        overridable=overridable,
        description=" ".join(word for word in words if word),
        id=info.consent_id,
        kind=info.kind.value,
        plannable=info.kind.plannable,
        unplannable=unplannable(info),
    )


HEALTH = frozenset(
    {
        "percentage used", "data written", "data read", "power-on hours", "power cycles",
        "unsafe shutdowns", "media errors", "available spare", "critical warning", "temperature",
        "OCP flash written", "OCP bad user blocks",
    }
)  # fmt: skip
METHODS = ("format", "sanitize", "ata_erase", "discard")


@click.command("retire")
@target_argument
@click.option("--method", type=click.Choice(METHODS), required=True, help="Purge method.")
@click.option(
    "--lba-format",
    metavar="SIZES",
    help="With --method format: the new LBA format in bytes, as data or data+metadata (4096 or "
    "512+8).",
)
@click.option(
    "--protection",
    type=click.IntRange(0, 3),
    default=0,
    help="With --lba-format: the type of protection information.",
)
@consent_options
@json_option
def retire(
    target: str,
    method: str,
    lba_format: str | None,
    protection: int,
    *,
    consent: "Consent",
    as_json: bool,
) -> None:
    """Purge a drive that is no longer needed, and show its health and wear."""
    from ssdbench.cli.documents.machine import Retired
    from ssdbench.engine.targets import retired
    from ssdbench.model.profile import Purge
    from ssdbench.model.target import asked_format
    from ssdbench.target.inspect import inspect

    if lba_format is not None and method != "format":
        raise UsageError(
            "--lba-format needs --method format: no other method changes the LBA format"
        )
    info = inspect(target)
    done = retired(
        info,
        Purge(method),
        consent,
        lba_format=asked_format(lba_format, protection) if lba_format is not None else None,
    )
    final = inspect(target)
    health = {k: v for k, v in final.facts.items() if k in HEALTH or k.startswith("SMART ")}
    if as_json:
        document(Retired.of(done, target=final, done=done.said, health=health or None))
        return
    answer(f"{info.name} ({info.id}): {done.said}")
    for name, value in done.after.items():
        answer(f"  {name}: {done.before.get(name, 'unknown')} before, {value} after")
    for name, value in health.items():
        answer(f"  {name}: {value}")
    if not health:
        answer("  final SMART data: this target reports none")
