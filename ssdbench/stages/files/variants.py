"""Define variants, workloads and files of trials on a file system; pure."""

from collections.abc import Iterator, Sequence

from ssdbench.generator.fio.jobfile import Options
from ssdbench.stages.files.trial import Files
from ssdbench.stages.host.trial import RAMP_S, TrialWorkload, Variant
from ssdbench.stages.host.variants import surface_workloads
from ssdbench.units import KIB, MIB, format_size

MIXED_FILE = "mixed"


def fitting(sizes: Sequence[int], room_bytes: int) -> tuple[int, ...]:
    """Return the smallest sizes that fit into `room_bytes` together."""
    counts: list[int] = []
    for size in sorted(set(sizes)):
        if sum(counts) + size <= room_bytes:
            counts.append(size)
    return tuple(counts)


def surface_on_files(sizes: Sequence[int]) -> tuple[TrialWorkload, ...]:
    """Return four workloads for the file of each size."""
    return tuple(
        TrialWorkload(
            workload.name,
            tuple({**s, "filename": _file(int(s["size"]))} for s in workload.sections),
        )
        for workload in surface_workloads(sizes, max(sizes))
    )


def surface_files(sizes: Sequence[int]) -> tuple[Files, ...]:
    """Return one file of each size."""
    return tuple(Files(size, {"filename": _file(size)}) for size in sizes)


def _file(size: int) -> str:
    return format_size(size).replace(" ", "")


def job_variants(counts: Sequence[int], one: str, many: str) -> list[Variant]:
    """Return one variant per number of fio jobs, named in the singular or plural."""
    return [Variant(f"{n} {many if n > 1 else one}", options={"numjobs": n}) for n in counts]


def writer_workloads(
    block_bytes: int,
    delays_s: Sequence[float],
    percents: Sequence[float],
    *,
    window_s: int,
    buffered: bool,
) -> tuple[TrialWorkload, ...]:
    """Return sequential writes without pauses, and with pauses of some lengths and frequencies.

    Workloads with pauses have no ramp and a longer window: fio counts the I/O of the ramp of a job
    with `thinktime`, but not its time (fio 3.33: 20 writes in 3 s at 5 per second, ramp of 1 s).
    """
    base: Options = {
        "rw": "write",
        "bs": block_bytes,
        "ioengine": "psync",
        "direct": 0 if buffered else 1,
    }

    def found() -> Iterator[TrialWorkload]:
        yield TrialWorkload("no pauses", (base,))
        for percent in percents:
            for delay_s in delays_s:
                pause: Options = {
                    "thinktime": round(delay_s * 1e6),
                    "thinktime_blocks": max(1, round(100 / percent)),
                    "ramp_time": "0s",
                    "runtime": f"{window_s + RAMP_S}s",
                }
                name = f"{delay_s * 1000:g} ms after {percent:g} %"
                yield TrialWorkload(name, ({**base, **pause},))

    return tuple(found())


def mix_workloads(
    read_percents: Sequence[int], block_bytes: int, size_bytes: int, *, buffered: bool
) -> tuple[TrialWorkload, ...]:
    """Return random reads, writes and mixes on one file, with one request per thread."""
    base: Options = {
        "bs": block_bytes,
        "size": size_bytes,
        "filename": MIXED_FILE,
        "ioengine": "psync",
        "direct": 0 if buffered else 1,
    }

    def found() -> Iterator[TrialWorkload]:
        for percent in read_percents:
            match percent:
                case 0:
                    yield TrialWorkload("random write", ({**base, "rw": "randwrite"},))
                case 100:
                    yield TrialWorkload("random read", ({**base, "rw": "randread"},))
                case _:
                    mixed: Options = {**base, "rw": "randrw", "rwmixread": percent}
                    yield TrialWorkload(f"random, {percent} % reads", (mixed,))

    return tuple(found())


def room_on(drive_bytes: int) -> int:
    """Return the bytes for files that leave room for the data of every kind of file system."""
    return max(0, int(drive_bytes * 0.6) - 16 * MIB) // (4 * KIB) * 4 * KIB
