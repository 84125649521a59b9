"""What the command line asks of the lab: disks served, modules built, one command run."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from time import monotonic, sleep

from ssdbench.errors import HostLacks, telling
from ssdbench.host import command
from ssdbench.lab import memory
from ssdbench.lab.archive import Archive
from ssdbench.lab.disks import DiskRequest
from ssdbench.lab.guest import Answer, Guest, unwatched
from ssdbench.lab.lab import InMemory, Lab
from ssdbench.lab.machine import Disk, Machine
from ssdbench.lab.modules import built_modules, load_script
from ssdbench.lab.tools import FOR_DISKS, TO_BUILD, TO_FETCH, require_programs
from ssdbench.sim.drive import SimDrive
from ssdbench.sim.native_files import library
from ssdbench.sim.spec import parse


@dataclass(frozen=True, slots=True)
class GuestRequest:
    """Everything that one `lab run` asks for."""

    argv: tuple[str, ...]
    series: str
    disks: tuple[DiskRequest, ...]
    cwd: Path
    cpus: int = 2
    memory_mib: int = 2048
    nodes: int = 1  # NUMA
    reproducible: bool = False
    modules: bool = True
    multipath: bool = False
    timeout_s: float = 3600.0
    devices: tuple[str, ...] = ()  # further arguments of QEMU
    programs: tuple[str, ...] = ()  # in the guest's memory, in place of the host's files
    append: str = ""  # further words of the kernel's command line
    kernel_dir: Path | None = None  # a kernel that was built there, in place of the series
    handed_on: bool = False  # what the command says is read by `watch`, and is not in the answer


def run_in_guest(
    request: GuestRequest, cache: Path, *, watch: Callable[[Path], None] = unwatched
) -> Answer:
    """Boot, run, and return what the command said. Raises GuestTrouble, HostLacks, UsageError.

    `watch` is called some times a second with the directory that the guest writes to: the command's
    `1/stdout` and `1/stderr`, as far as they have come. What this host can tell at once is told
    before a kernel is fetched, which takes minutes.
    """
    for disk in request.disks:
        if disk.sim is not None:
            parse(disk.sim)
    if request.programs:
        memory.found(request.programs)
    else:
        _require_mounts()
    _require_programs(request, cache)
    lab = Lab(Archive(cache), request.series, tree=request.kernel_dir)
    if request.kernel_dir:
        for disk in request.disks:
            lab.kernel.require(FOR_DISKS[disk.disk.bus])
    modules = built_modules(lab.kernel, cache) if request.modules else []
    in_memory = InMemory(request.programs, tuple(modules)) if request.programs else None
    with serve_disks(request.disks) as disks:
        return lab.run(
            request.argv,
            machine=_machine(request, lab, disks),
            cwd=request.cwd,
            timeout_s=request.timeout_s,
            prepare=load_script(modules) if modules else "",
            in_memory=in_memory,
            while_running=watch,
            handed_on=request.handed_on,
        )


def _require_programs(request: GuestRequest, cache: Path) -> None:
    """Raise HostLacks for programs that this host lacks, before anything is fetched.

    What is in the cache already needs none.
    """
    fetches = not (cache / f"kernel-{request.series}").exists() or bool(request.kernel_dir)
    builds = request.modules and (fetches or not any(cache.glob("modules-*")))
    if fetches or builds:
        require_programs({**TO_FETCH, **(TO_BUILD if builds else {})})


def _require_mounts() -> None:
    said = command.run(["unshare", "--mount", "--propagation", "private", "true"], ok=range(256))
    if said.status:
        raise HostLacks(
            f"the lab cannot show this host's files to a guest: {telling(said.stderr)}",
            hint="Run as root, and in a container with the right to mount.",
        )


@contextmanager
def kept_guest(request: GuestRequest, cache: Path) -> Iterator[Guest]:
    """The guest that a request describes, for any number of commands; the request's own is none."""
    lab = Lab(Archive(cache), request.series, tree=request.kernel_dir)
    with (
        serve_disks(request.disks) as disks,
        lab.guest(_machine(request, lab, disks), cwd=request.cwd) as guest,
    ):
        yield guest


def _machine(request: GuestRequest, lab: Lab, disks: tuple[Disk, ...]) -> Machine:
    return replace(
        Machine.unbooted(),
        disks=disks,
        cpus=request.cpus,
        memory_mib=request.memory_mib,
        nodes=request.nodes,
        reproducible=request.reproducible,
        kvm=lab.kvm_works(),
        multipath=request.multipath,
        devices=request.devices,
        append=request.append,
    )


@contextmanager
def serve_disks(requests: Sequence[DiskRequest]) -> Iterator[tuple[Disk, ...]]:
    """Disks whose simulated drives answer on sockets until the end of the block."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(TemporaryDirectory(prefix="ssdbench-disks-")))
        disks = []
        for index, request in enumerate(requests):
            disk = request.disk
            if request.sim is not None:
                disk = replace(disk, nbd_socket=_serve(stack, folder / str(index), request.sim))
            disks.append(disk)
        yield tuple(disks)


def _serve(stack: ExitStack, folder: Path, sim: str) -> Path:
    folder.mkdir()
    state, socket = folder / "state.ssdb", folder / "nbd.sock"
    SimDrive.create(parse(sim), state).close(saves=False)  # the server changes it
    server = command.spawn(
        [
            str(library("ssdb-nbd")),
            "--state", str(state), "--socket", str(socket), "--data", str(folder / "data"),
        ],
        stdout=folder / "stdout",
        stderr=folder / "stderr",
    )  # fmt: skip
    stack.callback(server.terminate)
    deadline = monotonic() + 10
    while not socket.exists():
        if server.poll() is not None or monotonic() > deadline:
            said = telling((folder / "stderr").read_text(errors="replace"))
            raise HostLacks(f"the simulated drive {sim} could not be served: {said}")
        sleep(0.02)
    return socket
