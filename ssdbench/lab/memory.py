"""Build a guest that has all programs in memory at boot, for reproducible runs.

If a guest reads programs from the host, it waits for the data while executing a varying number of
instructions. So the instruction counts of two runs differ slightly. This guest reads nothing from
the host, and writes the output of the command to a disk after the command has ended.
"""

import shutil
import tarfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path, PurePosixPath

from ssdbench.errors import UsageError
from ssdbench.host import command
from ssdbench.lab import tools
from ssdbench.lab.kernels import Kernel, module_bytes

INIT = Path(__file__).with_name("init-memory.sh")
EARLY = ("configfs", "nvme", "ahci", "sd_mod")
LATE = ("virtio_pci", "virtio_blk")  # drivers of the disk for the output
ANSWERS = ("booted_s", "stdout", "stderr", "dmesg", "status")
ANSWER_BYTES = 1 << 30  # size of the sparse file for the output disk; /run is not larger
ON_DEMAND = ("null_blk", "mq-deadline", "bfq", "kyber-iosched", "ext4")  # modprobe can load them


def initramfs(
    kernel: Kernel,
    busybox: Path,
    *,
    programs: Sequence[str],
    modules: Sequence[Path],
    script: str,
) -> bytes:
    """Build the guest's only file system: host programs, kernel modules, init and `script`."""
    files = {
        "bin/busybox": busybox.read_bytes(),
        "init": INIT.read_bytes(),
        "command": script.encode(),
        **_programs(programs),
        **_modules(kernel, modules),
    }
    return tools.initramfs(directories(files), files)


def found(programs: Sequence[str]) -> list[Path]:
    """Return the paths of programs on this host. Raises UsageError for a missing program."""
    paths = []
    for name in programs:
        if (path := command.which(name)) is None:
            raise UsageError(
                f"there is no program {name} on this host to put into the guest's memory"
            )
        paths.append(Path(path))
    return paths


def make_answer_disk(path: Path) -> None:
    """Make the empty disk to which the guest writes its output, for `unpack` to read."""
    with path.open("wb") as file:
        file.truncate(ANSWER_BYTES)


def unpack(disk: Path, into: Path) -> None:
    """Copy the output files from the disk that the guest wrote into a directory.

    Only files that ANSWERS lists are copied, so that a guest cannot write other files on the host.
    """
    try:
        with tarfile.open(disk, "r:") as answer:
            for member in answer:
                held = member.isreg() and not member.issparse() and member.name in ANSWERS
                content = answer.extractfile(member) if held else None
                if content is not None:
                    with (into / member.name).open("wb") as file:
                        shutil.copyfileobj(content, file)
    except (tarfile.TarError, ValueError, OverflowError):
        return


def directories(files: Iterable[str]) -> list[str]:
    """Return all directories that the given files need, each parent before its subdirectories."""
    parents: set[PurePosixPath] = {PurePosixPath("bin")}
    for name in files:
        parents.update(PurePosixPath(name).parents)
    return sorted(str(path) for path in parents if str(path) != ".")


def needs(said: str) -> list[str]:
    """Return the paths of the shared libraries in `said`, the output of `ldd`."""
    words = [line.split() for line in said.splitlines()]
    return sorted({word for line in words for word in line if word.startswith("/")})


def dependencies(order: Sequence[str]) -> str:
    """Return the text of a `modules.dep` file in which each module needs all modules before it."""
    lines = [f"{name}: {' '.join(reversed(order[:n]))}" for n, name in enumerate(order)]
    return "".join(f"{line.rstrip()}\n" for line in lines)


def _programs(names: Sequence[str]) -> dict[str, bytes]:
    programs: dict[str, bytes] = {}
    for path in found(names):
        programs[f"bin/{path.name}"] = path.read_bytes()
        # For a script, ldd fails, but a script needs no shared libraries.
        said = command.run(["ldd", str(path)], ok=(0, 1)).stdout
        programs |= {need.lstrip("/"): Path(need).read_bytes() for need in needs(said)}
    return programs


def _modules(kernel: Kernel, ours: Sequence[Path]) -> Mapping[str, bytes]:
    early = kernel.insertion_order(*EARLY)
    late = [path for path in kernel.insertion_order(*LATE) if path not in early]
    files = {f"modules/{_name(path)}": module_bytes(path) for path in [*early, *late, *ours]}
    files["modules/order"] = _lines([*early, *ours])
    files["modules/late"] = _lines(late)
    tree = f"lib/modules/{kernel.release}"
    listed = []
    for wanted in ON_DEMAND:
        order = [path for path in kernel.insertion_order(wanted) if path not in early]
        listed.append(dependencies([_name(path) for path in order]))
        files |= {f"{tree}/{_name(path)}": module_bytes(path) for path in order}
    files[f"{tree}/modules.dep"] = "".join(listed).encode()
    return files


def _name(path: Path) -> str:
    return path.name.removesuffix(".xz")


def _lines(paths: Sequence[Path]) -> bytes:
    return "".join(f"{_name(path)}\n" for path in paths).encode()
