"""User Mode Linux: a kernel as a process of this host, for what takes too long on emulated CPUs.

Programs run on the CPU itself; what they ask of their kernel is slower than on a machine. The
kernel, of Debian's source, is built once and kept beside the lab's. It has one CPU. Its programs
are those of this host, whose files it can only read: what it writes stays in its memory.
"""

import os
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory

from ssdbench.errors import HostLacks
from ssdbench.host import command, files
from ssdbench.host.kmod import build, source_digest, source_directory
from ssdbench.host.lock import waiting
from ssdbench.lab.guest import text_of

# The guest's root: this file system read-only, without those that are mounted on it. In /run there
# is only what the guest is given, in /tmp its memory. All of it ends with the first process.
_OUTSIDE = r"""
cd "$1"; kernel=$2 options=$3; shift 3; mkdir root
read_only() { mount --bind "$1" "$2"; mount -o remount,bind,ro "$2"; }
read_only / root
mount -t proc -o ro proc root/proc
for name in tmp run dev; do mount -t tmpfs -o size=100% tmpfs root/$name; done
mkdir root/dev/shm; cp -a /dev/null /dev/zero /dev/random /dev/urandom root/dev
cp begin script root/run; chmod +x root/run/begin
for pair in "kernel=$kernel" "$@"; do
  mkdir "root/run/${pair%%=*}"; read_only "${pair#*=}" "root/run/${pair%%=*}"; done
env -i HOME=/tmp TMPDIR=/tmp PATH="$PATH" chroot root /run/kernel/linux loglevel=1 $options \
  rootfstype=hostfs rootflags=/ ro init=/run/begin con=null con0=null,fd:1 con1=null,fd:1
"""
# On top of that everything can be written, in the guest's memory.
_BEGIN = r"""#!/bin/bash
export HOME=/tmp PATH=/usr/sbin:/usr/bin:/sbin:/bin
mount -t tmpfs tmpfs /tmp; cd /tmp; mkdir root upper work
mount -t overlay -o lowerdir=/,upperdir=upper,workdir=work overlay root; cd root
mount -t proc proc proc; mount -t sysfs sysfs sys; mount -t devtmpfs devtmpfs dev
mount -t configfs configfs sys/kernel/config; mount -t debugfs debugfs sys/kernel/debug
mkdir -p dev/pts dev/shm; mount -t devpts devpts dev/pts
for name in dev/shm tmp; do mount -t tmpfs -o mode=1777 tmpfs $name; done
ln -s /proc/self/fd dev/fd; ln -s fd/0 dev/stdin; ln -s fd/1 dev/stdout; ln -s fd/2 dev/stderr
ln -sf /proc/self/mounts etc/mtab
chroot . bash /run/script
echo o > proc/sysrq-trigger; sleep 60
"""


def modules(kernel: Path) -> Path:
    """The directory of our modules for it, built anew where their sources have changed.

    Raises HostLacks without `insmod`, which the kernel takes from this host to load them.
    """
    if command.which("insmod") is None:
        raise HostLacks("no module can be loaded without insmod", hint="apt-get install kmod")
    source = source_directory()
    into = kernel / f"modules-{source_digest(source)}"
    with waiting(kernel / "modules.lock"):
        if not (into / "complete").exists():
            build(source, into, headers=kernel, block_source=kernel / "source", options=["ARCH=um"])
            files.write_atomic(into / "complete", "")
    return into


def run(
    kernel: Path,
    scripts: Sequence[str],
    *,
    given: Mapping[str, Path],
    options: Sequence[str],
    timeout_s: float,
) -> list[str]:
    """What each script of bash says, all at the same time, each in a kernel of its own.

    It is cut short where the time is over or the kernel has crashed. `given` are directories, which
    it has below /run by their names; `options` are the kernel's, at least how much memory it has.
    It says nothing of its own unless they have another `loglevel`. Each keeps to one CPU: it and
    the program that calls it take turns, and to wake one another on another CPU takes longer.
    """
    cpus = sorted(os.sched_getaffinity(0))
    with ExitStack() as running:
        jobs = []
        for number, script in enumerate(scripts):
            job = Path(running.enter_context(TemporaryDirectory(prefix="ssdbench-user-mode-")))
            files.write_atomic(job / "begin", _BEGIN)
            files.write_atomic(job / "script", script)
            process = command.spawn(
                [
                    "taskset", "--cpu-list", str(cpus[number % len(cpus)]),
                    "unshare", "--mount", "--propagation", "private", "--pid", "--fork",
                    "--kill-child", "sh", "-ec", _OUTSIDE, "sh", str(job), str(kernel),
                    " ".join(options), *(f"{name}={path}" for name, path in given.items()),
                ],
                stdout=job / "stdout",
                stderr=job / "stderr",
            )  # fmt: skip
            running.callback(process.kill)
            jobs.append((job, process))
        until = time.monotonic() + timeout_s
        for _, process in jobs:
            if process.wait(max(until - time.monotonic(), 0)) is None:
                process.kill()
        return [text_of(job / "stdout") + text_of(job / "stderr") for job, _ in jobs]
