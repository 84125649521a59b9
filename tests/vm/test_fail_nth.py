"""Each operation of each module, with each of its allocations failed once, on a debug kernel.

A complaint of that kernel (KASAN, UBSAN, lockdep, a WARNING, kmemleak) fails the test, and so does
an operation that answers with another error, leaves a disk behind, or loses data. The kernel is
built on first use, which takes a quarter of an hour on two free cores.
"""

import os
from pathlib import Path

import pytest

from ssdbench.host.command import run
from ssdbench.lab.archive import Archive
from ssdbench.lab.lab import Lab
from ssdbench.lab.modules import built_modules, load_script
from ssdbench.lab.session import GuestRequest, run_in_guest
from tests.vm.conftest import KERNEL_DIR, REPOSITORY, cache, console_shown
from tests.vm.debug_kernel import debug_kernel

pytestmark = [pytest.mark.vm, pytest.mark.soak, pytest.mark.timeout(0)]

SCRIPT = Path(__file__).with_name("fail_nth.py")
ONE_CALL = Path(__file__).with_name("one_call.c")
# Of operations with many allocations only each so many-th is failed, to be done sooner.
EVERY = os.environ.get("SSDBENCH_FAIL_NTH_EVERY", "1")
WALK_S = 2 * 3600.0
GROUPS = (
    "names", "flash mq", "flash bio", "flash polled", "flash zones",
    "tmerge", "slam", "bpref", "loading",
)  # fmt: skip


@pytest.fixture(scope="session")
def tree() -> Path:
    """A kernel that can fail an allocation."""
    return KERNEL_DIR or debug_kernel(cache())


@pytest.mark.parametrize("group", GROUPS)
def test_every_allocation_may_fail_and_nothing_breaks(
    group: str, tree: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    library = tmp_path / "one_call.so"
    run(["gcc", "-O2", "-shared", "-fPIC", "-Wl,-z,now", "-o", str(library), str(ONE_CALL)])
    lab = Lab(Archive(cache()), "", tree=tree)
    modules = built_modules(lab.kernel, cache())
    files = [str(_without_events(path, tmp_path)) for path in modules if group == "loading"]
    words = ["python3", "-u", str(SCRIPT), group, EVERY, str(library), *files]
    if group != "loading":
        words = ["sh", "-c", f'{load_script(modules)}\nexec "$@"', "sh", *words]

    with console_shown():
        answer = run_in_guest(
            GuestRequest(
                argv=tuple(words), series="", kernel_dir=tree, disks=(), cwd=REPOSITORY,
                modules=False, timeout_s=WALK_S,
            ),
            cache(),
        )  # fmt: skip

    walks = [line for line in answer.stdout.splitlines() if line.startswith("walk ")]
    faults = sum(int(line.partition(": ")[2].split()[0]) for line in walks)
    with capsys.disabled():
        print(f"\n{answer.stdout}{group}: {len(walks)} operations, {faults} faults")
    assert answer.status == 0, answer.stderr
    assert "lock checks on" in answer.stdout
    can_filter = "CONFIG_FAULT_INJECTION_STACKTRACE_FILTER=y" in (tree / ".config").read_text()
    assert ("modules' own not apart" in answer.stdout) != can_filter
    assert faults > len(walks)


def _without_events(module: Path, into: Path) -> Path:
    """A copy whose trace points are no events: the kernel warns when it cannot make those.

    Afterwards it counts wrongly who uses them (Linux 6.12, kernel/trace/trace_events.c).
    """
    copy = into / module.name
    table = "_ftrace_events"
    run(["objcopy", "-R", table, "-R", f".rela{table}", str(module), str(copy)])
    return copy
