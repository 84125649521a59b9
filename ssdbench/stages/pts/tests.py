"""Define each PTS-style test by its cells and tracking variables, or by its phases."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from ssdbench.errors import UsageError
from ssdbench.model.finding import Finding
from ssdbench.model.findings.course import NotApplicable
from ssdbench.model.findings.drive import BelowMappingUnit
from ssdbench.model.profile import Purge
from ssdbench.model.profile.standard import PtsForm, PtsTest, Saturation
from ssdbench.model.pts import PtsAbsent, PtsMetric
from ssdbench.model.target import TargetInfo
from ssdbench.model.workload import ActiveRange, Pattern, Workload
from ssdbench.stages.pts.rounds import Rounds
from ssdbench.stages.pts.stage import Preparation
from ssdbench.stages.pts.timed import Timed
from ssdbench.stages.pts.work import MAX_ROUNDS, Cell, Phase, Tracking, warm_up_s
from ssdbench.stats.bounds.pointfindings import below_remap_unit
from ssdbench.stats.inside.probing import known_remap_unit
from ssdbench.units import KIB, format_minutes, format_size

HALF_KIB = KIB // 2
MIXES = (100, 95, 65, 50, 35, 5, 0)  # percent of reads; the outer loop of a round
BLOCKS = tuple(size * KIB for size in (1024, 128, 64, 32, 16, 8, 4)) + (HALF_KIB,)
DEMAND = (32, 16, 8, 6, 4, 2, 1)  # numbers of threads; queue depths of each thread
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
LATENCY_S = 1200.0  # time of the final histogram
SATURATIONS = {  # pattern, block, percent of reads
    Saturation.WRITES_4K: (Pattern.RANDOM, 4 * KIB, 0),
    Saturation.MIXED_8K: (Pattern.RANDOM, 8 * KIB, 65),
    Saturation.SEQUENTIAL_128K: (Pattern.SEQUENTIAL, 128 * KIB, 90),
    Saturation.SEQUENTIAL_512: (Pattern.SEQUENTIAL, HALF_KIB, 50),
    Saturation.COMPOSITE: (Pattern.RANDOM, 4 * KIB, 40),
}
COMPOSITE_ZONES = ((50.0, 5.0), (30.0, 15.0), (20.0, 80.0))


@dataclass(frozen=True, slots=True)
class Form:
    """Hold the parameters that differ between the standard's enterprise and client forms."""

    active_percent: float
    iodepth: int
    threads: int
    throughput_blocks: tuple[int, ...]


FORMS = {
    PtsForm.ENTERPRISE: Form(100.0, 32, 4, (1024 * KIB, 128 * KIB)),
    PtsForm.CLIENT: Form(75.0, 16, 2, (1024 * KIB,)),
}


@dataclass(frozen=True, slots=True)
class Setting:
    """Hold the target and the options of a test."""

    target: TargetInfo
    form_name: PtsForm
    max_rounds: int = MAX_ROUNDS
    scale: float = 1.0
    purge: Purge = Purge.NONE
    saturation: tuple[Saturation, ...] = (Saturation.WRITES_4K,)

    @property
    def form(self) -> Form:
        """Return the parameters of the test's form, enterprise or client."""
        return FORMS[self.form_name]

    def lasting(self, seconds: float) -> str:
        """Return a time as text, multiplied by the test's scale."""
        return format_minutes(self.scale * seconds)

    def preparation(self, *, fills: bool = True) -> Preparation:
        """Return the preparation: the profile's purge; if `fills`, also writes of 2 capacities."""
        return Preparation(self.purge, fills, self.form.active_percent, from_fresh=not fills)

    def workload(self, pattern: Pattern, block: int, read: int, depth: int, jobs: int) -> Workload:
        """Return a workload on the active range, which begins at offset 0 of the drive."""
        length = int(self.target.size_bytes * self.form.active_percent / 100)
        return Workload(
            pattern=pattern,
            block_bytes=block,
            read_percent=read,
            iodepth=depth,
            numjobs=jobs,
            range=ActiveRange(offset_bytes=0, length_bytes=length // block * block),
        )

    def fits(self, part: Cell | Phase) -> bool:
        """Tell whether a part's block size is a multiple of the drive's logical block."""
        return part.workload.block_bytes % self.target.logical_block_bytes == 0

    def misfit(self, name: str) -> UsageError:
        """Return the error that says why this drive cannot do a test."""
        return UsageError(
            f"{name} needs blocks that the drive's logical block of "
            f"{format_size(self.target.logical_block_bytes)} does not allow",
            hint="Leave the test out, or format the drive with blocks of 512 B or 4 KiB.",
        )

    def not_applicable(self, part: Cell | Phase) -> Finding:
        """Return the finding that this drive cannot do one part of a test."""
        block = format_size(self.target.logical_block_bytes)
        return NotApplicable(part.name, f"the drive's logical block is {block}").finding()

    def labels(self, parts: Sequence[Cell | Phase]) -> tuple[Finding, ...]:
        """Return one finding with the sizes of all writes that are not whole mapping units."""
        unit = known_remap_unit(self.target, ())
        loads = (part.workload for part in parts)
        below = tuple(load.block_bytes for load in loads if below_remap_unit(load, unit))
        return (BelowMappingUnit(below, unit).finding(),) if below else ()

    def history(
        self,
        name: str,
        test: PtsTest,
        phases: Sequence[Phase],
        *,
        load: str = "",
        finale: tuple[Cell, ...] = (),
    ) -> Timed:
        """Make a test of phases. Raises UsageError if the drive cannot do one of the phases."""
        if not all(self.fits(phase) for phase in phases):
            raise self.misfit(name)
        return Timed(
            name=name,
            test=test,
            load=load,
            form=self.form_name,
            phases=tuple(phases),
            preparation=self.preparation(fills=False),
            finale=finale,
            skipped=self.labels(phases),
            scale=self.scale,
        )

    def rounds(
        self,
        name: str,
        test: PtsTest,
        cells: Iterable[Cell],
        tracking: Iterable[Tracking],
        *,
        load: str = "",
        finale: tuple[Cell, ...] = (),
        warm_up: Phase | None = None,
    ) -> Rounds:
        """Make a test of rounds; leave out cells that this drive cannot do.

        Raises UsageError if the drive cannot do a cell with a tracking variable.
        """
        kept: list[Cell] = []
        skipped: list[Cell] = []
        for cell in cells:
            (kept if self.fits(cell) else skipped).append(cell)
        tracked = tuple(tracking)
        if not {one.cell for one in tracked} <= {cell.name for cell in kept}:
            raise self.misfit(name)
        return Rounds(
            name=name,
            test=test,
            load=load,
            form=self.form_name,
            cells=tuple(kept),
            tracking=tracked,
            absent=tuple(
                PtsAbsent(
                    cell=cell.name,
                    block_bytes=cell.workload.block_bytes,
                    read_percent=cell.workload.read_percent,
                )
                for cell in skipped
            ),
            warm_up=warm_up,
            finale=finale,
            max_rounds=self.max_rounds,
            scale=self.scale,
            preparation=self.preparation(),
            skipped=(*map(self.not_applicable, skipped), *self.labels(kept)),
        )


def cell_name(read: int, block: int) -> str:
    """Return the name of a cell by its share of reads and block size, such as `65/35 64 KiB`."""
    return f"{read}/{100 - read} {format_size(block)}"


def iops(name: str, setting: Setting) -> tuple[Rounds, ...]:
    """Test IOPS: random I/O, seven mixes of eight block sizes, three tracking variables (2.0.x)."""
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
    tracking = [Tracking(cell_name(*key)) for key in tracked]
    return (setting.rounds(name, PtsTest.IOPS, cells, tracking),)


def throughput(name: str, setting: Setting) -> tuple[Rounds, ...]:
    """Test throughput: sequential reads and writes, in a separate test for each block size."""
    return tuple(
        setting.rounds(
            f"{name}-{block // KIB}k",
            PtsTest.THROUGHPUT,
            [
                Cell(
                    cell_name(read, block), setting.workload(Pattern.SEQUENTIAL, block, read, 32, 1)
                )
                for read in (100, 0)
            ],
            [Tracking(cell_name(0, block), PtsMetric.THROUGHPUT)],
            load=format_size(block),
        )
        for block in setting.form.throughput_blocks
    )


def latency(name: str, setting: Setting) -> tuple[Rounds, ...]:
    """Test latency: one request at a time, and a final histogram of 4 KiB writes for 20 min."""
    cells = [
        Cell(cell_name(read, block), setting.workload(Pattern.RANDOM, block, read, 1, 1))
        for read in (100, 65, 0)
        for block in (8 * KIB, 4 * KIB, HALF_KIB)
    ]
    load = setting.workload(Pattern.RANDOM, 4 * KIB, 0, 1, 1)
    hist = Cell(f"0/100 4 KiB, {setting.lasting(LATENCY_S)}", load, LATENCY_S)
    tracking = [Tracking(cell_name(0, 4 * KIB), PtsMetric.MEAN)]
    return (setting.rounds(name, PtsTest.LATENCY, cells, tracking, finale=(hist,)),)


def demand(name: str, setting: Setting) -> tuple[Rounds, ...]:
    """Test the latency of 4 KiB writes with different numbers of requests in flight."""
    base = setting.workload(Pattern.RANDOM, 4 * KIB, 0, 32, 32)
    return (_matrix(name, PtsTest.DEMAND, setting, base),)


def composite(name: str, setting: Setting) -> tuple[Rounds, ...]:
    """Test twelve mixed block sizes in three zones, 40 % reads, with growing requests in flight."""
    base = setting.workload(Pattern.RANDOM, 4 * KIB, 40, 32, 32)
    return (_matrix(name, PtsTest.COMPOSITE, setting, _mixed(base, setting)),)


def _mixed(base: Workload, setting: Setting) -> Workload:
    """Turn a workload into a mix of twelve block sizes in three zones."""
    logical = setting.target.logical_block_bytes
    split = tuple((size, share) for size, share in COMPOSITE if size % logical == 0)
    missing = 100 - sum(share for _, share in split)
    # On a drive with 4 KiB blocks, the shares of smaller sizes are added to the share of 4 KiB.
    split = tuple((s, share + missing if s == 4 * KIB else share) for s, share in split)
    return base.model_copy(update={"block_split": split, "zones": COMPOSITE_ZONES})


def _matrix(name: str, test: PtsTest, setting: Setting, base: Workload) -> Rounds:
    pairs = sorted(((t, q) for t in DEMAND for q in DEMAND), key=lambda p: -p[0] * p[1])
    writes = base.model_copy(update={"read_percent": 0})
    cells = [Cell("pre-write T32 Q32", writes, 300.0, pre_write=True)]
    cells += [
        Cell(f"T{t} Q{q}", base.model_copy(update={"numjobs": t, "iodepth": q})) for t, q in pairs
    ]
    warm_up = Phase("warm-up", writes, warm_up_s(), until_steady=True)
    return setting.rounds(name, test, cells, [Tracking("T32 Q32")], warm_up=warm_up)


def saturation(name: str, setting: Setting) -> tuple[Timed, ...]:
    """Write to a purged drive until it is steady, at most four drive fills or a day.

    The result has one test for each workload. Raises UsageError if no workload fits the drive's
    logical block.
    """
    phases = {kind: _saturating(kind, setting) for kind in setting.saturation}
    skipped = [setting.not_applicable(p) for p in phases.values() if not setting.fits(p)]
    found = [_saturated(name, k, p, setting) for k, p in phases.items() if setting.fits(p)]
    if not found:
        block = format_size(setting.target.logical_block_bytes)
        raise UsageError(
            f"no workload of {name} fits the drive's logical block of {block}",
            hint="Set `saturation: writes-4k`.",
        )
    return (replace(found[0], skipped=(*skipped, *found[0].skipped)), *found[1:])


def _saturating(kind: Saturation, setting: Setting) -> Phase:
    form = setting.form
    pattern, block, read = SATURATIONS[kind]
    workload = setting.workload(pattern, block, read, form.iodepth, form.threads)
    name = ("sequential " if pattern is Pattern.SEQUENTIAL else "") + cell_name(read, block)
    if kind is Saturation.COMPOSITE:
        name, workload = "composite 40/60", _mixed(workload, setting)
    return Phase(name, workload, SATURATION_S, SATURATION_FILLS, until_steady=True)


def _saturated(name: str, kind: Saturation, phase: Phase, setting: Setting) -> Timed:
    first = kind is Saturation.WRITES_4K
    return setting.history(
        name if first else f"{name}-{kind}",
        PtsTest.SATURATION,
        [phase],
        load="" if first else phase.name,
        finale=(Cell(f"{phase.name}, {setting.lasting(LATENCY_S)}", phase.workload, LATENCY_S),),
    )


def idle(name: str, setting: Setting) -> tuple[Timed, ...]:
    """Test bursts of 4 KiB writes with longer and longer pauses; after each, steady writes."""
    form = setting.form
    workload = setting.workload(Pattern.RANDOM, 4 * KIB, 0, form.iodepth, form.threads)
    phases = [Phase("warm-up", workload, warm_up_s(), until_steady=True)]
    for pause in IDLE_S:
        cycle, idle_s = BURST_S + pause, setting.lasting(pause)
        times = {
            "burst_us": round(BURST_S * 1e6 * setting.scale),
            "thinktime_us": round(pause * 1e6 * setting.scale),
        }
        phases += [
            Phase(
                f"{setting.lasting(BURST_S)} of writes, {idle_s} idle",
                workload.model_copy(update=times),
                IDLE_CYCLES * cycle,
                sample_s=cycle * round(60 / cycle),  # a whole number of cycles
            ),
            Phase(f"after {idle_s} idle", workload, AFTER_IDLE_S),
        ]
    return (setting.history(name, PtsTest.IDLE, phases),)


def crossed(name: str, setting: Setting) -> tuple[Timed, ...]:
    """Test sequential, then random, then sequential writes, with one thread at depth 32."""
    large = setting.workload(Pattern.SEQUENTIAL, 1024 * KIB, 0, 32, 1)
    small = setting.workload(Pattern.RANDOM, 8 * KIB, 0, 32, 1)
    phases = [
        Phase("1: sequential 1 MiB", large, 8 * 3600.0),
        Phase("2: random 8 KiB", small, 6 * 3600.0),
        Phase("3: sequential 1 MiB", large, 8 * 3600.0),
    ]
    return (setting.history(name, PtsTest.CROSSED, phases),)


TESTS: Mapping[PtsTest, Callable[[str, Setting], Sequence[Rounds | Timed]]] = {
    PtsTest.IOPS: iops,
    PtsTest.THROUGHPUT: throughput,
    PtsTest.LATENCY: latency,
    PtsTest.SATURATION: saturation,
    PtsTest.IDLE: idle,
    PtsTest.CROSSED: crossed,
    PtsTest.COMPOSITE: composite,
    PtsTest.DEMAND: demand,
}
