"""Temporal merge on a device that is slowed once more, by the CPUs that the guest does not have.

The paper's machine has eight CPUs ("two Xeon E5630 2.53 GHz quad core CPUs (total 8 cores)"), and
its threads submit and wake beside each other while the drive works. A guest has one stream of
instructions, on which the work of eight threads takes eight times as long. So the device of the
experiment `tmerge` is made eight times slower: all threads together then stand to the device as the
paper's eight CPUs stand to its. That is too slow a device for one thread alone, so what one thread
reaches is judged with the other model.
"""

from collections.abc import Sequence

from benchmarks.kernel.experiment import Claim, Model, frozen
from benchmarks.kernel.guestshell import TOOLS, assignments
from benchmarks.kernel.tmerge import FIXED, MERGE, MODES, TRANSFER, Tmerge, buffered

CPUS = 8


class Tmerge8:
    """The claims about shares of the peak, with the device slowed by the paper's eight CPUs."""

    name = "tmerge8"
    about = "8 and 16 threads through ssdb_tmerge on a device slowed eightfold, one CPU for eight"
    cpus = 1

    def freeze(self, series: str) -> Model:
        """The software's cost as the first model measured it, times the paper's CPUs."""
        cost_ns = int(frozen(Tmerge(), series)["software_ns"])
        return {
            "software_ns": cost_ns,
            "cpus": CPUS,
            "cmd_serial_ns": round(cost_ns * CPUS * FIXED),
            "link_mbps": max(1, round(4096 * 1000 / (cost_ns * CPUS * TRANSFER))),
            "cmd_overlap": 0,
            "depth": 128,
        }

    def script(self, model: Model, seed: int) -> str:
        """The peak, then each mode where many threads read or write; eight times as long."""
        device = {n: v for n, v in model.items() if n not in ("software_ns", "cpus")}
        return "\n".join(
            [
                TOOLS + MERGE + buffered(run_ms=4800, settle_s=0.8, window_s=2),
                f"SEED={seed}; RUN=1200ms\ndrive {assignments(device)}",
                "peak read; peak write",
                f"for mode in {' '.join(MODES)}; do",
                "each $mode randread 8; each $mode randread 16; each $mode randwrite 8",
                "buffered $mode 8; done",
            ]
        )

    def claims(self) -> Sequence[Claim]:
        """The paper's shares of the peak, and the hybrid at the same points."""
        read, write = "randread-peak", "randwrite-peak"
        found = [
            Claim("STM, 16 threads reading / peak", "randread-16-stm", 0.87, (read,)),
            Claim("STM, 8 threads reading / peak", "randread-8-stm", 0.87, (read,)),
            Claim("ATM, 8 threads, buffered writes / peak", "buffered-8-atm", 0.99, (write,)),
            Claim("ATM, 8 threads, direct writes / peak", "randwrite-8-atm", 0.99, (write,)),
        ]
        found += [
            Claim(f"hybrid / better of STM and ATM, {at}", f"{at}-hybrid", 0.99,
                  (f"{at}-stm", f"{at}-atm"))
            for at in ("randread-8", "randread-16", "randwrite-8", "buffered-8")
        ]  # fmt: skip
        return found
