"""`ssdbench lab`: the same commands inside a QEMU guest, on a distribution kernel."""

import os
from pathlib import Path

import click

LEAST_MIB = 256  # the kernel, its first file system, and the modules
DEFAULT_CACHE = "/var/cache/ssdbench/lab"


@click.group()
def lab() -> None:
    """Run commands in a guest with the kernel modules loaded; this host stays untouched."""


@lab.command(context_settings={"ignore_unknown_options": True})
@click.option("--kernel", default="6.12", show_default=True, help="Kernel series: 6.1 or 6.12.")
@click.option(
    "--disk", "disks", multiple=True, metavar="BUS=BACKEND",
    help="nvme|ahci|virtio|scsi = sim:MODEL | null:SIZE | FILE; may be given several times. "
    "Options after the bus: hotplug, queues=N, fail=SECTOR.",
)  # fmt: skip
@click.option(
    "--cpus",
    default=2,
    show_default=True,
    type=click.IntRange(1, 64),
    help="CPUs of the guest.",
)
@click.option("--memory", default="2GiB", show_default=True, help="Memory of the guest.")
@click.option("--reproducible", is_flag=True, help="Count time in instructions, on one CPU.")
@click.option(
    "--program", "programs", multiple=True, metavar="NAME",
    help="Put this program of the host into the guest's memory, and no other file of the host. "
    "With --reproducible, runs then agree to the last digit. May be given several times.",
)  # fmt: skip
@click.option("--multipath", is_flag=True, help="NVMe drives behind multipath heads.")
@click.option("--modules/--no-modules", default=True, help="Build and load the bundled modules.")
@click.option("--timeout", default="1h", show_default=True, help="End the guest after this time.")
@click.option("--json", "as_json", is_flag=True, help="One JSON document on stdout.")
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED)
def run(
    kernel: str,
    disks: tuple[str, ...],
    cpus: int,
    memory: str,
    *,
    reproducible: bool,
    programs: tuple[str, ...],
    multipath: bool,
    modules: bool,
    timeout: str,
    as_json: bool,
    command: tuple[str, ...],
) -> None:
    """Run COMMAND in a fresh guest; its output and exit status become ours.

    Without --disk there is one simulated drive, /dev/nvme0n1; with --program, none. A FILE that
    holds data needs consent like a drive. If QEMU itself fails before COMMAND has begun, the guest
    is booted again, up to three times in all, with a message.
    """
    from ssdbench.errors import UsageError
    from ssdbench.lab.disks import parse_all
    from ssdbench.lab.kernels import SERIES
    from ssdbench.lab.session import GuestRequest, run_in_guest
    from ssdbench.units import MIB, NS_PER_S, parse_duration_ns, parse_size

    if kernel not in SERIES:
        raise UsageError(f"there is no kernel {kernel} in the lab; it has {', '.join(SERIES)}")
    try:
        memory_mib, timeout_s = parse_size(memory) // MIB, parse_duration_ns(timeout) / NS_PER_S
    except ValueError as error:
        raise UsageError(str(error)) from error
    if memory_mib < LEAST_MIB:
        raise UsageError(f"a guest needs {LEAST_MIB} MiB of memory at least, not {memory}")
    here_mib = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // MIB
    if memory_mib > here_mib:
        raise UsageError(
            f"a guest cannot have {memory} of memory: this host has only {here_mib} MiB",
            hint="Give a smaller `--memory`.",
        )
    if timeout_s < 1:
        raise UsageError(f"a guest needs more time than {timeout} to boot")
    answer = run_in_guest(
        GuestRequest(
            argv=command,
            series=kernel,
            disks=tuple(parse_all(disks, in_memory=bool(programs))),
            cwd=Path.cwd(),
            cpus=cpus,
            memory_mib=memory_mib,
            reproducible=reproducible,
            programs=programs,
            multipath=multipath,
            modules=modules,
            timeout_s=timeout_s,
        ),
        Path(os.environ.get("SSDBENCH_LAB_CACHE", DEFAULT_CACHE)),
    )
    for said in answer.failed_boots:
        click.echo(
            f"lab: QEMU or the kernel failed before the guest ran anything: {said}", err=True
        )
    if answer.failed_boots:
        click.echo("lab: the guest was booted again: its boot failed, not COMMAND", err=True)
    if reproducible and not programs:
        click.echo(
            "lab: programs came from the host's files, so runs agree to about 0.1 %; "
            "with --program NAME for each program, they agree to the last digit",
            err=True,
        )
    if as_json:
        import dataclasses

        from ssdbench.cli.documents.machine import RanInGuest
        from ssdbench.cli.output import document

        document(RanInGuest(**dataclasses.asdict(answer)))
    else:
        click.echo(answer.stdout, nl=False)
        click.echo(answer.stderr, nl=False, err=True)
    raise SystemExit(answer.status)
