"""Count how often the answers beside the number are right, wrong or "cannot tell".

    nox -s judge-the-answers [-- --full] [-- --only blocks --drives 1000 --seed 7 --kept FILE]

Hidden drives are drawn from a seed, of every kind that the simulator can make; the rules see only
what a real drive would show. Rules and their calibration were made with other seeds than the
default one, whose figures the documents show. `--calibrate` prints the table from which the
confidence of an answer comes.
"""

import argparse
import itertools
import json
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack, suppress
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from benchmarks import hidden_blocks, hidden_flash, hidden_probes, hidden_queues
from benchmarks import published_zoo as zoo
from benchmarks.hidden_flash import CoreBench
from benchmarks.judge_published import by_core
from benchmarks.tables import markdown
from ssdbench.engine.events import Event, Progress, StageFinished, StageStarted
from ssdbench.model.inside import BlockSizeFound, ProbeNumbers
from ssdbench.model.workload import Pattern
from ssdbench.sim.core import Drive
from ssdbench.sim.library import Params
from ssdbench.stages.probe.spare import RemapUnit, Spare
from ssdbench.stats.inside.blockjudge import FREQUENCIES
from ssdbench.stats.inside.writebuffer import Held
from ssdbench.stats.inside.writesizes import STRIPE
from ssdbench.units import KIB

SEED = 20_261_122
RIGHT, WIDE, WRONG, OR_LESS, CANNOT = "right", "right, wide", "wrong", "or less", "cannot tell"
SAID = (RIGHT, WIDE, WRONG, OR_LESS, CANNOT)
HALF_WIDTH = 0.25  # of the middle of a range: a wider one counts apart
HOUR_S = 3600.0
WALL_S = 0.005  # of wall time per look at it: progress is told about once a minute of the drive's
TOO_HIGH = 1.02  # times the true rate, VALIDATED or not


@dataclass(frozen=True, slots=True)
class Outcome:
    """Hold how right one answer about one drive is."""

    question: str
    kind: str
    said: str
    score: float = 0.0
    confidence: float | None = None
    note: str = ""


def blocks(number: int, seed: int) -> list[Outcome]:
    """Judge `detect-blocksize` on one drive."""
    hidden = hidden_blocks.made(number, seed)
    verdict, holds = hidden_blocks.asked(hidden, seed=number + 1)
    truth, said = hidden.block_bytes, verdict.block_bytes
    how = _of_size(said, truth, at_most=verdict.at_most)
    if truth is None:
        how = RIGHT if said is None else WRONG
    score = verdict.best.score if verdict.best else 0.0
    note = f"drive {number}: {said} for {truth}, score {score:.1f}"
    return [
        Outcome("block size", hidden.kind, how, score, verdict.confidence, note),
        _of_buffer(number, hidden, holds),
    ]


def sizes(number: int, seed: int) -> list[Outcome]:
    """Judge the whole answer of `detect-blocksize` on one drive of any kind."""
    hidden = hidden_blocks.of_any_kind(number, seed)
    said = hidden_blocks.sized(hidden, seed=number + 1)
    unit = hidden.params["map_unit_bytes"]
    truth = hidden.block_bytes or max(unit, hidden_blocks.UNIT_BYTES)
    none = "none" if truth == hidden_blocks.UNIT_BYTES else "a unit"
    kind = "a block" if hidden.block_bytes else none
    how = _of_size(said.write_bytes, truth, at_most=said.at_most)
    note = f"drive {number}: {said.answer} for {truth // KIB} KiB"
    outcome = Outcome("size of writes", kind, how, confidence=said.confidence, note=note)
    return [outcome, *_of_stripe(hidden, said, note)]


def _of_stripe(hidden: hidden_blocks.Hidden, said: BlockSizeFound, note: str) -> Iterator[Outcome]:
    """Judge the stripe, where it was asked for."""
    if hidden.block_bytes is None and any(part.part == STRIPE for part in said.parts):
        truth = hidden_probes.Drive("", hidden_probes.PAGE, hidden.params).stripe_bytes
        how = RIGHT if said.stripe_bytes == truth else WRONG
        note = f"{note}, stripe {said.stripe_bytes} for {truth}"
        yield Outcome("stripe", hidden.kind, how if said.stripe_bytes else CANNOT, note=note)


def _of_buffer(number: int, hidden: hidden_blocks.Hidden, holds: Held | None) -> Outcome:
    """Judge the size of the write buffer; a buffer that shows nothing may still be there."""
    truth = hidden.params["wbuf_bytes"]
    kind = f"{'a' if truth else 'no'} buffer, {'a' if hidden.block_bytes else 'no'} block"
    if holds is None:
        return Outcome("write buffer", kind, CANNOT if truth else RIGHT)
    unit = hidden_blocks.UNIT_BYTES
    least, most = (holds.least_writes - 1) * unit, (holds.most_writes + 1) * unit
    return _within("write buffer", kind, least, most, truth, f"drive {number}")


def flash(number: int, seed: int) -> list[Outcome]:
    """Judge `probe` on one page-mapped drive."""
    params = hidden_flash.made(number, seed)
    collector = ("greedy", "FIFO", f"best of {params['gc_d']}")[params["gc_policy"]]
    bench = CoreBench(Drive.in_memory(Params(params)))
    bench.fill(bench.size_bytes)
    unit = RemapUnit().ask(bench).numbers
    bench.fill(bench.size_bytes)
    bench.write(Pattern.RANDOM, 32 * KIB, 32, bench.size_bytes, bench.size_bytes // 2)
    room = Spare().ask(bench).numbers
    kind = f"{collector}, {hidden_flash.room(params)}"
    note = f"drive {number}"
    return [
        Outcome("remap unit", collector, _of_unit(unit, params["map_unit_bytes"]),
                note=note),
        _within("over-provisioning", kind, room.over_provisioning_least,
                room.over_provisioning_most, hidden_flash.spare(params), note),
        _within("write amplification", kind, room.write_amplification_least,
                room.write_amplification_most, bench.amplification(), note),
    ]  # fmt: skip


def rate(number: int, seed: int) -> list[Outcome]:
    """Judge the search for a rate on one queue, family and percentile in turn."""
    families, percentiles = hidden_queues.FAMILIES, ("p99", "p99.9")
    family = families[number % len(families)]
    percentile = percentiles[number // len(families) % len(percentiles)]
    queue = hidden_queues.made(number, seed, family, percentile)
    truth, _ = hidden_queues.truth(queue, number)
    found, valid, _ = hidden_queues.asked(queue, number)
    said = found.rate_iops
    over = said / truth if said and truth else float(bool(said))
    how = WRONG if over > TOO_HIGH else RIGHT if valid and said else CANNOT
    note = f"queue {number}: {said} for {truth:.1f}{'' if valid else ', NOT VALIDATED'}"
    return [Outcome("rate", f"{family} {percentile}", how, over, note=note)]


def probes(number: int, seed: int) -> list[Outcome]:
    """Judge all answers of `probe` about one drive."""
    drive = hidden_probes.made(number, seed)
    return [
        Outcome(question, drive.kind, how, note=f"{number} {drive.target}: {told}")
        for question, how, told in hidden_probes.answers(drive)
    ]


def hours(number: int, seed: int) -> list[Outcome]:
    """Judge when a run is said to end: the last estimate of its first hour, or the first later."""
    made = zoo.creature(seed + number)
    said: list[tuple[float, tuple[float, float]]] = []
    spent_s = 0.0

    def heard(event: Event) -> None:
        nonlocal spent_s
        if isinstance(event, StageFinished):
            spent_s += event.result.duration_s
        elif isinstance(event, StageStarted) and event.ends_after_s:
            said.append((spent_s, event.ends_after_s))
        elif isinstance(event, Progress) and event.ends_after_s:
            said.append((event.ran_s, event.ends_after_s))

    looked = itertools.count()  # once or twice a second of the drive's clock

    with tempfile.TemporaryDirectory(prefix="judge-") as name:
        target, profile = zoo.write(made, Path(name))
        by_core(
            target,
            profile,
            Path(name) / "run",
            seed=seed + number,
            emit=heard,
            wall=lambda: next(looked) * WALL_S,
        )
    at_s, (least, most) = max(
        (one for one in said if one[0] <= HOUR_S), default=min(said, key=lambda one: one[0])
    )
    told = f"run {number}: {least / HOUR_S:.1f} to {most / HOUR_S:.1f} h, took "
    note = f"{told}{spent_s / HOUR_S:.1f} h, said after {at_s / HOUR_S:.1f} h"
    narrow = RIGHT if most <= 2 * least else WIDE
    how = narrow if least <= spent_s <= most else WRONG
    return [Outcome("end of the run", made.family, how, note=note)]


def _of_size(said: int | None, truth: int | None, *, at_most: bool) -> str:
    """Judge a size; of one "or less" the truth must be a part."""
    if said is None:
        return CANNOT
    if at_most and truth:
        return OR_LESS if said % truth == 0 else WRONG
    return RIGHT if said == truth else WRONG


def _of_unit(said: ProbeNumbers, truth: int) -> str:
    if said.remap_unit_bytes is None:
        return CANNOT
    if said.at_most:
        return OR_LESS if truth <= said.remap_unit_bytes else WRONG
    return RIGHT if truth == said.remap_unit_bytes else WRONG


def _within(
    question: str, kind: str, least: float | None, most: float | None, truth: float, note: str
) -> Outcome:
    if least is None or most is None:
        return Outcome(question, kind, CANNOT, note=note)
    told = f"{note}: {least:.3g} to {most:.3g} for {truth:.3g}"
    if not least <= truth <= most:
        return Outcome(question, kind, WRONG, note=told)
    narrow = most - least <= HALF_WIDTH * (most + least)
    return Outcome(question, kind, RIGHT if narrow else WIDE, note=told)


@dataclass(frozen=True, slots=True)
class Part:
    """Describe the answers of one command, and on how many drives they are judged."""

    ask: Callable[[int, int], list[Outcome]]
    short: int
    full: int
    most_wrong: int = 0  # at full count


PARTS: Mapping[str, Part] = {
    "blocks": Part(blocks, short=8, full=1200, most_wrong=3),
    "sizes": Part(sizes, short=3, full=480, most_wrong=4),
    "flash": Part(flash, short=16, full=480, most_wrong=12),  # four of each quantity
    "probes": Part(probes, short=1, full=24, most_wrong=3),
    "rate": Part(rate, short=4, full=7064, most_wrong=3),
    "hours": Part(hours, short=3, full=200, most_wrong=20),
}


def judged(
    part: Part, numbers: Sequence[int], seed: int, workers: int, kept: Path | None = None
) -> Iterator[Outcome]:
    """Yield the outcomes on all these drives; those in the file `kept` are read, not asked."""
    before = dict(_kept(kept, seed)) if kept is not None and kept.exists() else {}
    listed = [number for number in numbers if number not in before]
    for number in numbers:
        yield from before.get(number, ())
    with ExitStack() as stack:
        ask: Iterable[list[Outcome]] = (part.ask(number, seed) for number in listed)
        if workers > 1:
            pool = stack.enter_context(ProcessPoolExecutor(workers))
            ask = pool.map(part.ask, listed, [seed] * len(listed), chunksize=4)
        file = stack.enter_context(kept.open("a")) if kept is not None else None
        for number, found in zip(listed, ask, strict=True):
            if file is not None:
                line = {"seed": seed, "number": number, "outcomes": [asdict(o) for o in found]}
                print(json.dumps(line), file=file, flush=True)
            yield from found


def _kept(path: Path, seed: int) -> Iterator[tuple[int, list[Outcome]]]:
    """Yield what an earlier call stored of the drives of that seed."""
    for line in path.read_text().splitlines():
        row = json.loads(line)
        if row["seed"] == seed:
            yield row["number"], [Outcome(**one) for one in row["outcomes"]]


def table(outcomes: Iterable[Outcome]) -> str:
    """Return a table with a row for each question and kind of drive."""
    count = Counter((one.question, one.kind, one.said) for one in outcomes)
    rows = sorted({(question, kind) for question, kind, _ in count})
    return markdown(
        ["question", "drives", *SAID], [[*row, *(count[*row, s] for s in SAID)] for row in rows]
    )


def shortfalls(outcomes: Iterable[Outcome]) -> str:
    """Return how far rates are below the truth, by family and percentile, VALIDATED or not."""
    kinds: dict[str, list[float]] = {}
    for one in outcomes:
        if one.question == "rate" and one.score:
            kinds.setdefault(one.kind, []).append(one.score)
    rows = [
        (kind, len(over), f"{100 * (1 - float(np.median(over))):.1f} %", f"{max(over):.3f}")
        for kind, over in sorted(kinds.items())
    ]
    head = ("rates", "answers", "median shortfall", "highest over the truth")
    return markdown(head, rows) if rows else ""


def _surely(outcomes: Iterable[Outcome]) -> Iterator[tuple[float, float, bool]]:
    """Yield the confidence and the score of each answer that says a size, and if it is right."""
    for one in outcomes:
        if one.confidence is not None and one.said in (RIGHT, WRONG, OR_LESS):
            yield one.confidence, one.score, one.said != WRONG


def calibration(outcomes: Iterable[Outcome]) -> str:
    """Return how often answers of each stated confidence are right."""
    bins: dict[float, list[bool]] = {}
    for confidence, _, right in _surely(outcomes):
        bins.setdefault(confidence, []).append(right)
    rows = [
        (f"{100 * said:.1f} %", len(right), f"{100 * sum(right) / len(right):.1f} %")
        for said, right in sorted(bins.items())
    ]
    return markdown(("said", "answers", "right"), rows) if rows else ""


def frequencies(outcomes: Iterable[Outcome]) -> str:
    """Return the rows of `FREQUENCIES` that these outcomes give."""
    edges = [row[0] for row in FREQUENCIES]
    right: dict[float, list[bool]] = {edge: [] for edge in edges}
    for _, score, is_right in _surely(outcomes):
        right[max(edge for edge in edges if edge <= max(score, edges[0]))].append(is_right)
    return "\n".join(f"    ({edge:g}, {len(one)}, {sum(one)})," for edge, one in right.items())


def main() -> int:
    """Print the tables; return 1 when answers were wrong more often than their limit."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=SEED)
    parser.add_argument("--only", choices=[*PARTS], action="append")
    parser.add_argument("--drives", type=int)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--full", action="store_true")
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument(
        "--kept", type=Path, help="a file of one part's answers: added to, and gone on from"
    )
    parser.add_argument("--calibrate", action="store_true")
    asked = parser.parse_args()
    code = 0
    for name in asked.only or PARTS:
        part = PARTS[name]
        begun = time.monotonic()
        drives = asked.drives or (part.full if asked.full else part.short)
        numbers = range(asked.first, asked.first + drives)
        found = []
        with suppress(KeyboardInterrupt):  # what was judged until then counts
            for one in judged(part, numbers, asked.seed, asked.workers, asked.kept):
                found.append(one)
                if one.said == WRONG:
                    print(f"  wrong: {one.question}, {one.kind}: {one.note}", flush=True)
        print(f"## {name}: {len(found)} answers, {time.monotonic() - begun:.0f} s\n")
        for told in (table(found), shortfalls(found), calibration(found)):
            print(told + "\n" if told else "", end="\n" if told else "", flush=True)
        if asked.calibrate:
            print(frequencies(found))
        code |= sum(one.said == WRONG for one in found) > part.most_wrong
    return code


if __name__ == "__main__":
    raise SystemExit(main())
