"""What the NBD front adds to each request on this machine: `python -m benchmarks.sim_nbd`.

fio's nbd engine against a drive that takes no time, client and server on one processor with
real-time priority, then against one that takes 80 us, without and with the constant that the
server measures at its start.
"""

import json
import sys
import tempfile
import time
from pathlib import Path

from ssdbench.host.command import run, spawn
from ssdbench.sim.drive import SimDrive
from ssdbench.sim.nbd import argv, uri
from ssdbench.sim.spec import parse

MODEL = """\
title: Takes no time but what is asked for
sources: [planted]
params: {{ftl: direct, capacity: 1GiB, t_read: 0ns, t_prog: 0ns, fw_read: {read_us}us, \
fw_write: 0ns, cmd_serial: 0ns, wbuf: 0, link: 1000000}}
"""
ON_ONE_PROCESSOR = ["chrt", "-r", "5", "taskset", "-c", "0"]


def measure(
    directory: Path, *, read_us: int, overhead_ns: int | None, iodepth: int
) -> tuple[float, float]:
    """Mean latency in us and IOPS of random reads."""
    name = f"{read_us}-{overhead_ns}-{iodepth}"
    model, state = directory / f"{name}.yaml", directory / f"{name}.ssdb"
    model.write_text(MODEL.format(read_us=read_us))
    SimDrive.create(parse(f"sim:{model}"), state).close()
    socket, log = directory / f"{name}.sock", directory / "log"
    server = spawn(
        [*ON_ONE_PROCESSOR, *argv(state, socket, data=None, overhead_ns=overhead_ns)],
        stdout=directory / "out",
        stderr=log,
    )
    while "ready" not in log.read_text():
        time.sleep(0.01)
    fio = ["fio", "--name=r", "--ioengine=nbd", f"--uri={uri(socket)}", "--rw=randread",
           "--bs=4096", "--size=64m", "--time_based", "--runtime=3", f"--iodepth={iodepth}",
           "--output-format=json"]  # fmt: skip
    output = run([*ON_ONE_PROCESSOR, *fio], timeout_s=60).stdout
    server.terminate()
    read = json.loads("{" + output.partition("{")[2])["jobs"][0]["read"]
    return read["lat_ns"]["mean"] / 1e3, read["iops"]


def main() -> int:
    """Print the table."""
    print(f"{'drive':>7} {'taken off':>10} {'QD':>4} {'mean us':>9} {'IOPS':>9}")
    with tempfile.TemporaryDirectory(prefix="ssdb") as name:
        for read_us, overhead_ns in ((0, 0), (80, 0), (80, None)):
            for iodepth in (1, 32):
                mean_us, iops = measure(
                    Path(name), read_us=read_us, overhead_ns=overhead_ns, iodepth=iodepth
                )
                taken = "measured" if overhead_ns is None else "nothing"
                print(f"{read_us:>4} us {taken:>10} {iodepth:>4} {mean_us:>9.1f} {iops:>9.0f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
