"""The PTS-style tests: cells and tracking variables, or phases."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from ssdbench.errors import UsageError
from ssdbench.model.finding import Finding
from ssdbench.model.findings.course import NotApplicable
from ssdbench.model.findings.drive import BelowMappingUnit
from ssdbench.model.profile import Purge
from ssdbench.model.target import TargetInfo
from ssdbench.model.workload import ActiveRange, Pattern, Workload
from ssdbench.stages.pts.parts import Cell, Phase, Tracking, warm_up_s
from ssdbench.stages.pts.preparation import Preparation
from ssdbench.stages.pts.rounds import Rounds
from ssdbench.stages.pts.timed import Timed
from ssdbench.stats.pointfindings import below_remap_unit
from ssdbench.stats.probing import known_remap_unit
from ssdbench.units import KIB, format_size

HALF_KIB = KIB // 2
MIXES = (100, 95, 65, 50, 35, 5, 0)  # percent of reads, outer loop
BLOCKS = tuple(size * KIB for size in (1024, 128, 64, 32, 16, 8, 4)) + (HALF_KIB,)
DEMAND = (32, 16, 8, 6, 4, 2, 1)  # threads, and outstanding requests of each
COMPOSITE = (
    *((512, 4), (1024, 1), (1536, 1), (2048, 1), (2560, 1), (3072, 1), (3584, 1)),
    *((4096, 67), (8192, 10), (16384, 7), (32768, 3), (65536, 3)),
)
IDLE_S = (5, 10, 15, 25, 50)
BURST_S = 5
IDLE_CYCLES = 360
AFTER_IDLE_S = 1800.0
SATURATION_S = 24 * 3600.0
SATURATION_FILLS = 4.0
LATENCY_S = 1200.0  # of the histogram in steady state
SATURATIONS = {  # pattern, block, percent of reads
    "writes-4k": (Pattern.RANDOM, 4 * KIB, 0),
    "mixed-8k": (Pattern.RANDOM, 8 * KIB, 65),
    "sequential-128k": (Pattern.SEQUENTIAL, 128 * KIB, 90),
    "sequential-512": (Pattern.SEQUENTIAL, HALF_KIB, 50),
    "composite": (Pattern.RANDOM, 4 * KIB, 40),
}
COMPOSITE_ZONES = ((50.0, 5.0), (30.0, 15.0), (20.0, 80.0))


@dataclass(frozen=True, slots=True)
class Form:
    """Parameters that the enterprise and the client form of the standard differ in."""

    name: str
    active_percent: float
    iodepth: int
    threads: int
    throughput_blocks: tuple[int, ...]


FORMS = {
    "enterprise": Form("enterprise", 100.0, 32, 4, (1024 * KIB, 128 * KIB)),
    "client": Form("client", 75.0, 16, 2, (1024 * KIB,)),
}


@dataclass(frozen=True, slots=True)
class Setting:
    """Where and how a test is done."""

    target: TargetInfo
    form: Form
    max_rounds: int
    scale: float
    purge: Purge = Purge.NONE
    saturation: tuple[str, ...] = ("writes-4k",)

    def preparation(self, *, fills: bool = True) -> Preparation:
        """Before each test: the profile's purge, and two capacities of writes where asked."""
        return Preparation(self.purge, fills, self.form.active_percent, from_fresh=not fills)

    def workload(self, pattern: Pattern, block: int, read: int, depth: int, jobs: int) -> Workload:
        """A workload on the active range, from the start of the drive."""
        length = int(self.target.size_bytes * self.form.active_percent / 100)
        return Workload(
            pattern=pattern,
            block_bytes=block,
            read_percent=read,
            iodepth=depth,
            numjobs=jobs,
            range=ActiveRange(offset_bytes=0, length_bytes=length // block * block),
        )

    def misfit(self, name: str) -> UsageError:
        """The error for a test that this drive cannot do."""
        return UsageError(
            f"{name} needs blocks that the drive's logical block of "
            f"{format_size(self.target.logical_block_bytes)} does not allow",
            hint="Leave the test out, or format the drive with blocks of 512 B or 4 KiB.",
        )

    def labels(self, name: str, workloads: Sequence[Workload]) -> tuple[Finding, ...]:
        """At most one: which blocks are not whole mapping units."""
        unit = known_remap_unit(self.target, ())
        below = tuple(w.block_bytes for w in workloads if below_remap_unit(w, unit))
        return (BelowMappingUnit(below, unit).finding(stage=name),) if below else ()

    def history(self, test: Timed) -> Timed:
        """A test of phases with its labels. Raises UsageError when this drive cannot do it."""
        workloads = [phase.workload for phase in test.phases]
        if any(w.block_bytes % self.target.logical_block_bytes for w in workloads):
            raise self.misfit(test.name)
        return replace(test, skipped=(*test.skipped, *self.labels(test.name, workloads)))

    def test(
        self,
        name: str,
        test: str,
        title: str,
        cells: Iterable[Cell],
        tracking: tuple[Tracking, ...],
        finale: tuple[Cell, ...] = (),
    ) -> Rounds:
        """A test without the cells that this drive cannot do.

        Raises UsageError when it cannot do what the test tracks.
        """
        logical = self.target.logical_block_bytes
        kept: list[Cell] = []
        skipped: list[Cell] = []
        for cell in cells:
            (skipped if cell.workload.block_bytes % logical else kept).append(cell)
        if not {tracked.cell for tracked in tracking} <= {cell.name for cell in kept}:
            raise self.misfit(name)
        return Rounds(
            name=name,
            test=test,
            form=self.form.name,
            cells=tuple(kept),
            tracking=tracking,
            absent=tuple(skipped),
            finale=finale,
            max_rounds=self.max_rounds,
            scale=self.scale,
            preparation=self.preparation(),
            skipped=(
                *(_not_applicable(cell, logical, name) for cell in skipped),
                *self.labels(name, [cell.workload for cell in kept]),
            ),
            title=title,
        )


def cell_name(read: int, block: int) -> str:
    """`65/35 64 KiB`."""
    return f"{read}/{100 - read} {format_size(block)}"


def iops(name: str, setting: Setting) -> tuple[Rounds, ...]:
    """Random, seven mixes of eight block sizes; three tracking variables (2.0.x)."""
    form = setting.form
    cells = [
        Cell(
            cell_name(read, block),
            setting.workload(Pattern.RANDOM, block, read, form.iodepth, form.threads),
        )
        for read in MIXES
        for block in BLOCKS
    ]
    tracked = ((0, 4 * KIB), (65, 64 * KIB), (100, 1024 * KIB))
    tracking = tuple(Tracking(cell_name(*key)) for key in tracked)
    return (setting.test(name, "IOPS", "PTS-style IOPS test", cells, tracking),)


def throughput(name: str, setting: Setting) -> tuple[Rounds, ...]:
    """Sequential reads and writes; a test of its own for each block size."""
    return tuple(
        setting.test(
            f"{name}-{block // KIB}k",
            "throughput",
            f"PTS-style throughput test, {format_size(block)}",
            [
                Cell(
                    cell_name(read, block), setting.workload(Pattern.SEQUENTIAL, block, read, 32, 1)
                )
                for read in (100, 0)
            ],
            (Tracking(cell_name(0, block), "throughput_bytes_per_s"),),
        )
        for block in setting.form.throughput_blocks
    )


def latency(name: str, setting: Setting) -> tuple[Rounds, ...]:
    """One request at a time; in steady state 20 min of 4 KiB writes for their histogram."""
    cells = [
        Cell(cell_name(read, block), setting.workload(Pattern.RANDOM, block, read, 1, 1))
        for read in (100, 65, 0)
        for block in (8 * KIB, 4 * KIB, HALF_KIB)
    ]
    hist = Cell(
        "0/100 4 KiB, 20 min", setting.workload(Pattern.RANDOM, 4 * KIB, 0, 1, 1), LATENCY_S
    )
    tracking = (Tracking(cell_name(0, 4 * KIB), "mean_ns"),)
    test = setting.test(name, "latency", "PTS-style latency test", cells, tracking, (hist,))
    return (replace(test, adds_up=True),)


def demand(name: str, setting: Setting) -> tuple[Rounds, ...]:
    """Response time over the outstanding requests, 4 KiB writes."""
    base = setting.workload(Pattern.RANDOM, 4 * KIB, 0, 32, 32)
    return (_matrix(name, "demand intensity", setting, base),)


def composite(name: str, setting: Setting) -> tuple[Rounds, ...]:
    """Twelve block sizes in three zones, 40/60 reads and writes, over outstanding requests."""
    base = setting.workload(Pattern.RANDOM, 4 * KIB, 40, 32, 32)
    return (_matrix(name, "composite block workload", setting, _mixed(base, setting)),)


def _mixed(base: Workload, setting: Setting) -> Workload:
    """A workload of twelve block sizes in three zones."""
    logical = setting.target.logical_block_bytes
    split = tuple((size, share) for size, share in COMPOSITE if size % logical == 0)
    missing = 100 - sum(share for _, share in split)
    # A drive with 4 KiB blocks gets the shares of the smaller sizes as 4 KiB.
    split = tuple((s, share + missing if s == 4 * KIB else share) for s, share in split)
    return base.model_copy(update={"block_split": split, "zones": COMPOSITE_ZONES})


def _matrix(name: str, test: str, setting: Setting, base: Workload) -> Rounds:
    pairs = sorted(((t, q) for t in DEMAND for q in DEMAND), key=lambda p: -p[0] * p[1])
    writes = base.model_copy(update={"read_percent": 0})
    cells = [Cell("pre-write T32 Q32", writes, 300.0)]
    cells += [
        Cell(f"T{t} Q{q}", base.model_copy(update={"numjobs": t, "iodepth": q})) for t, q in pairs
    ]
    found = setting.test(name, test, f"PTS-style {test} test", cells, (Tracking("T32 Q32"),))
    warm_up = Phase("warm-up", writes, warm_up_s(), until_steady=True)
    return replace(found, warm_up=warm_up, demand=True)


def saturation(name: str, setting: Setting) -> tuple[Timed, ...]:
    """A purged drive under writes for four drive fills, a day, or until it is steady.

    A test for each workload. Raises UsageError when none of them fits the drive's blocks.
    """
    logical = setting.target.logical_block_bytes
    loads = {kind: _saturating(kind, setting) for kind in setting.saturation}
    fit = {kind: w for kind, w in loads.items() if w.block_bytes % logical == 0}
    if not fit:
        raise UsageError(
            f"no workload of {name} fits the drive's logical block of {format_size(logical)}",
            hint="Set `saturation: writes-4k`.",
        )
    skipped = tuple(
        _not_applicable(Cell(kind, workload), logical, name)
        for kind, workload in loads.items()
        if kind not in fit
    )
    found = [_saturated(name, kind, workload, setting) for kind, workload in fit.items()]
    found[0] = replace(found[0], skipped=skipped)
    return tuple(setting.history(test) for test in found)


def _saturating(kind: str, setting: Setting) -> Workload:
    """The standard's workload of that kind, with its threads and queue."""
    form = setting.form
    pattern, block, read = SATURATIONS[kind]
    workload = setting.workload(pattern, block, read, form.iodepth, form.threads)
    return _mixed(workload, setting) if kind == "composite" else workload


def _saturated(name: str, kind: str, workload: Workload, setting: Setting) -> Timed:
    first = kind == "writes-4k"
    cell = cell_name(workload.read_percent, workload.block_bytes)
    if workload.pattern is Pattern.SEQUENTIAL:
        cell = f"sequential {cell}"
    load = "composite 40/60" if kind == "composite" else cell
    phase = Phase(load, workload, SATURATION_S, SATURATION_FILLS, until_steady=True)
    return Timed(
        name=name if first else f"{name}-{kind}",
        test="write saturation" if first else f"write saturation ({load})",
        form=setting.form.name,
        phases=(phase,),
        preparation=setting.preparation(fills=False),
        finale=(Cell(f"{load}, 20 min", workload, LATENCY_S),),
        scale=setting.scale,
        title="PTS-style write saturation test" + ("" if first else f", {load}"),
    )


def idle(name: str, setting: Setting) -> tuple[Timed, ...]:
    """Bursts of 4 KiB writes with pauses that grow, each followed by half an hour without any."""
    workload = _small_writes(setting)
    phases = [Phase("warm-up", workload, warm_up_s(), until_steady=True)]
    for pause in IDLE_S:
        cycle = BURST_S + pause
        times = {
            "burst_us": round(BURST_S * 1e6 * setting.scale),
            "thinktime_us": round(pause * 1e6 * setting.scale),
        }
        phases += [
            Phase(
                f"5 s of writes, {pause} s idle",
                workload.model_copy(update=times),
                IDLE_CYCLES * cycle,
                sample_s=cycle * round(60 / cycle),  # whole cycles, or samples would beat
            ),
            Phase(f"after {pause} s idle", workload, AFTER_IDLE_S),
        ]
    return (
        setting.history(
            Timed(
                name=name,
                test="host idle recovery",
                form=setting.form.name,
                phases=tuple(phases),
                preparation=setting.preparation(fills=False),
                scale=setting.scale,
                title="PTS-style host idle recovery test",
            )
        ),
    )


def crossed(name: str, setting: Setting) -> tuple[Timed, ...]:
    """Sequential, then random, then sequential writes, one thread of 32."""
    large = setting.workload(Pattern.SEQUENTIAL, 1024 * KIB, 0, 32, 1)
    small = setting.workload(Pattern.RANDOM, 8 * KIB, 0, 32, 1)
    return (
        setting.history(
            Timed(
                name=name,
                test="cross-stimulus recovery",
                form=setting.form.name,
                phases=(
                    Phase("1: sequential 1 MiB", large, 8 * 3600.0),
                    Phase("2: random 8 KiB", small, 6 * 3600.0),
                    Phase("3: sequential 1 MiB", large, 8 * 3600.0),
                ),
                preparation=setting.preparation(fills=False),
                scale=setting.scale,
                title="PTS-style cross-stimulus recovery test",
            )
        ),
    )


def _small_writes(setting: Setting) -> Workload:
    form = setting.form
    return setting.workload(Pattern.RANDOM, 4 * KIB, 0, form.iodepth, form.threads)


TESTS: dict[str, Callable[[str, Setting], tuple[Rounds | Timed, ...]]] = {
    "iops": iops,
    "throughput": throughput,
    "latency": latency,
    "saturation": saturation,
    "idle": idle,
    "crossed": crossed,
    "composite": composite,
    "demand": demand,
}


def _not_applicable(cell: Cell, logical_bytes: int, stage: str) -> Finding:
    why = f"the drive's logical block is {format_size(logical_bytes)}"
    return NotApplicable(cell.name, why).finding(stage=stage)
