"""Each operation of each module, with each of its allocations failed once, on a debug kernel.

A complaint of that kernel (KASAN, UBSAN, lockdep, a WARNING, kmemleak) fails the test, and so does
an operation that answers with another error, leaves a disk behind, or loses data. Its kernels are
processes of this host, which fail every allocation in minutes; a kernel of one's own that is none
is walked in a guest, in samples. They are built on first use.
"""

import os
import shlex
from collections.abc import Sequence
from pathlib import Path

import pytest

from ssdbench.host.command import run
from ssdbench.host.kmod import MODULES
from ssdbench.lab.archive import Archive
from ssdbench.lab.disks import parse_all
from ssdbench.lab.guest import complaint
from ssdbench.lab.session import GuestRequest, Lab, built_modules, load_script, run_in_guest
from tests.vm import user_mode
from tests.vm.conftest import KERNEL_DIR, REPOSITORY, cache, console_shown
from tests.vm.debug_kernel import UM, debug_kernel

pytestmark = [pytest.mark.vm, pytest.mark.soak, pytest.mark.timeout(0)]

SCRIPT = Path(__file__).with_name("fail_nth.py")
ONE_CALL = Path(__file__).with_name("one_call.c")
LIBRARY = "one_call.so"
# Of operations with many allocations only each so many-th is failed, to be done sooner.
EVERY = os.environ.get("SSDBENCH_FAIL_NTH_EVERY")
# What a kernel in user mode says before is not of a module: at its first fork Linux 6.1 looks at
# areas of memory without their lock (force_flush_all).
BEGINS, ENDS = "the walk begins", "the walk ended"
WALK_S = 2 * 3600.0
GROUPS = (
    "names", "flash mq", "flash bio", "flash polled", "flash zones",
    "tmerge", "slam", "bpref", "loading",
)  # fmt: skip


@pytest.fixture(scope="session", params=["6.12", "6.1"] if KERNEL_DIR is None else ["its own"])
def tree(request: pytest.FixtureRequest) -> Path:
    """A kernel that can fail an allocation."""
    return KERNEL_DIR or debug_kernel(cache(), series=f"{request.param}-{UM}")


@pytest.mark.parametrize("group", GROUPS)
def test_every_allocation_may_fail_and_nothing_breaks(
    group: str, tree: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    library = str(tmp_path / LIBRARY)
    run(["gcc", "-O2", "-shared", "-fPIC", "-Wl,-z,now", "-o", library, str(ONE_CALL)])

    config = (tree / ".config").read_text()
    walk = in_user_mode if "CONFIG_UML=y\n" in config else in_guest
    said, trouble = walk(group, tree, tmp_path)

    walks = [line for line in said.splitlines() if line.startswith("walk ")]
    faults = sum(int(line.partition(": ")[2].split()[0]) for line in walks)
    with capsys.disabled():
        print("", *walks, f"{group}: {len(walks)} operations, {faults} faults", sep="\n")
    assert not trouble, said
    assert "lock checks on" in said
    can_filter = "CONFIG_FAULT_INJECTION_STACKTRACE_FILTER=y\n" in config
    assert ("modules' own not apart" in said) != can_filter
    assert faults > len(walks)


def in_user_mode(group: str, tree: Path, folder: Path) -> tuple[str, str]:
    """What a walk says in a process of this host, and what went wrong."""
    built = user_mode.modules(tree)
    modules = sorted(built.rglob("*.ko"), key=lambda path: MODULES.index(path.stem))
    words = _words(group, EVERY or "1", modules, folder, Path("/run/walk"), Path("/run/tests"))
    given = {"walk": folder, "tests": SCRIPT.parent, "modules": built}
    load = "".join(
        f"insmod /run/modules/{path.relative_to(built)} || exit\n"
        for path in modules if group != "loading"
    )  # fmt: skip
    script = f"echo {BEGINS}\n{load}{shlex.join(words)} 2>&1 && echo {ENDS}\n"
    options = ["mem=2G", "loglevel=6"]
    (said,) = user_mode.run(tree, [script], given=given, options=options, timeout_s=WALK_S)
    walked = said.partition(f"{BEGINS}\n")[2]
    return said, complaint(walked) or ("" if f"\n{ENDS}\n" in walked else "it was cut short")


def in_guest(group: str, tree: Path, folder: Path) -> tuple[str, str]:
    """What a walk says in an emulated guest, and what went wrong."""
    modules = built_modules(Lab(Archive(cache()), "", tree=tree).kernel, cache())
    words = _words(group, EVERY or "200", modules, folder, folder, SCRIPT.parent)
    if group != "loading":
        words = ["sh", "-c", f'{load_script(modules)}\nexec "$@"', "sh", *words]
    request = GuestRequest(
        argv=tuple(words), series="", kernel_dir=tree, cwd=REPOSITORY, modules=False,
        disks=tuple(parse_all(["nvme=null:64MiB", "scsi=null:64MiB"] if group == "slam" else [])),
        timeout_s=WALK_S,
    )  # fmt: skip
    with console_shown():
        answer = run_in_guest(request, cache())
    return answer.stdout, answer.stderr if answer.status else ""


def _words(
    group: str, every: str, modules: Sequence[Path], folder: Path, there: Path, tests: Path
) -> list[str]:
    """The walk's words, for whom sees `folder` as `there` and this directory as `tests`."""
    files = [str(there / _without_events(path, folder)) for path in modules if group == "loading"]
    return ["python3", "-u", str(tests / SCRIPT.name), group, every, str(there / LIBRARY), *files]


def _without_events(module: Path, into: Path) -> str:
    """A copy whose trace points are no events: the kernel warns when it cannot make those.

    Afterwards it counts wrongly who uses them (Linux 6.12, kernel/trace/trace_events.c).
    """
    copy = into / module.name
    table = "_ftrace_events"
    run(["objcopy", "-R", table, "-R", f".rela{table}", str(module), str(copy)])
    return copy.name
