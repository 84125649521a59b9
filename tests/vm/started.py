"""Python that is started once in a guest and forks for each script: `-m tests.vm.started PLACE`.

On an emulated CPU the imports alone take half a minute. PLACE has two pipes: a shell writes its
process number into `ask`, and reads the exit status from `told`. The script and the environment
lie beside them; the output goes where the shell's does.
"""

import gc
import importlib
import os
import sys
from pathlib import Path

READY = (
    "ssdbench.cli.conduct",
    "ssdbench.cli.drives",
    "ssdbench.cli.main",
    "ssdbench.engine.claimedsession",
    "ssdbench.engine.drivelogs",
    "ssdbench.engine.hostsettings",
    "ssdbench.stages.host.blocktrace",
    "ssdbench.stages.host.variants",
    "ssdbench.stages.precondition",
    "ssdbench.target.consent",
    "ssdbench.target.purge",
)


def script_for_child(place: Path) -> str:
    """Fork for each shell that asks, and tell it the status; in the child, return the script."""
    while True:
        shell = (place / "ask").read_text().strip()
        child = os.fork()
        if not child:
            for number in (1, 2):
                os.dup2(os.open(f"/proc/{shell}/fd/{number}", os.O_WRONLY | os.O_APPEND), number)
            words = (place / "environ").read_text().rstrip("\0").split("\0")
            os.environ.clear()
            parted = (word.partition("=") for word in words)
            os.environ.update({name: text for name, _, text in parted})
            return (place / "script").read_text()
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        (place / "told").write_text(f"{status & 255}\n")


def main(place: Path) -> None:
    """Import what scripts need, then run each in a process of its own."""
    (place / "pid").write_text(f"{os.getpid()}\n")
    gc.disable()  # it would look again and again at what stays anyway
    for name in READY:
        importlib.import_module(name)
    gc.freeze()
    gc.enable()
    script = script_for_child(place)
    exec(compile(script, "<script>", "exec"), {"__name__": "__main__"})


if __name__ == "__main__":
    main(Path(sys.argv[1]))
