"""The bundled kernel modules for one kernel of the lab: built once per source text."""

import logging
import shlex
from collections.abc import Sequence
from pathlib import Path

from ssdbench.host import command, files
from ssdbench.host.kmod import MODULES, NEEDS, build, source_digest, source_directory
from ssdbench.host.lock import waiting
from ssdbench.lab.kernels import Kernel
from ssdbench.lab.whole import is_whole, note

_log = logging.getLogger(__name__)


def built_modules(kernel: Kernel, cache: Path) -> list[Path]:
    """Our modules for a kernel of the lab, from the cache when their sources have not changed."""
    source = source_directory()
    of = kernel.root.name if kernel.tree else kernel.release
    into = cache / f"modules-{of}-{source_digest(source)}"
    stamp = into / "complete"
    with waiting(cache / "kmod.lock", lambda: _log.info("waiting for another build of modules")):
        if not (stamp.exists() and is_whole(into)):
            build(
                source, into, headers=kernel.headers, block_source=kernel.block_source,
                root=kernel.build_root, places=[kernel.root],
            )  # fmt: skip
            # Nine tenths of them is for a debugger, and an emulated CPU takes seconds to load it.
            built = [str(path) for path in into.rglob("*.ko")]
            command.run(["strip", "--strip-debug", *built], hint="apt-get install binutils")
            note(into)
            files.write_atomic(stamp, "")
    return sorted(into.rglob("*.ko"), key=lambda path: MODULES.index(path.stem))


def load_script(modules: Sequence[Path]) -> str:
    """Shell text that loads modules in the guest, those that are not; a failure ends the job."""
    lines = [f"modprobe {name} || exit 4" for name in NEEDS]
    lines += [
        f"[ -d /sys/module/{path.stem} ] || insmod {shlex.quote(str(path))} || exit 4"
        for path in modules
    ]
    return "\n".join(lines)
