"""Describe an experiment, freeze its model, keep and judge its rows; the words its scripts share.

The order is the point: the model is made (from a data sheet, or from one number measured before
anything is compared), written to a file and hashed; only then is anything compared. A stored
model is never made again, and rows that belong to another model are refused.
"""

import csv
import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, astuple, dataclass
from fractions import Fraction
from math import inf
from pathlib import Path
from statistics import mean
from types import MappingProxyType

from ssdbench.lab.archive import cache_directory
from ssdbench.lab.session import GuestRequest, run_in_guest
from ssdbench.stats.estimate import Interval, t_interval

CACHE = cache_directory()
REPOSITORY = Path(__file__).parents[2]
STORE = REPOSITORY / "reports" / "experiments"
SEED_S = 1800  # the most that a seed may take

Model = dict[str, int | str]


@dataclass(frozen=True, slots=True)
class Row:
    """Hold one number of one case."""

    seed: int
    case: str
    metric: str
    value: float


@dataclass(frozen=True, slots=True)
class Claim:
    """State what a paper says: `over` is at least `wanted` times the best of `under`.

    With `at_most`, no more than that; with `most`, no more than `most` as well: the range that the
    paper gives. Without `under`, `over` itself is compared.
    """

    text: str
    over: str
    wanted: float
    under: tuple[str, ...] = ()
    metric: str = "iops"
    at_most: bool = False
    most: float | None = None


def claims(said: Mapping[str, str], metric: str = "iops") -> tuple[Claim, ...]:
    """Parse claims by text: CASE, `>=`, `<=` or `in`, what is wanted, and the cases compared.

    What is wanted is a number or a fraction; after `in` two of them, LEAST..MOST.
    """
    found = []
    for text, rule in said.items():
        over, sign, wanted, *under = rule.split()
        least, _, most = wanted.partition("..")
        found.append(
            Claim(
                text, over, float(Fraction(least)), tuple(under), metric, at_most=sign == "<=",
                most=float(Fraction(most)) if most else None,
            )
        )  # fmt: skip
    return tuple(found)


@dataclass(frozen=True, slots=True)
class Judged:
    """Hold a claim and what was found: the worst, mean and best of the seeds.

    `low` and `high` are the 95 % interval of the mean over the seeds (Student's t); one seed has
    none, and both are its value.
    """

    claim: Claim
    worst: float
    mean: float
    best: float
    seeds: int
    low: float
    high: float

    @property
    def verdict(self) -> str:
        """Say whether the whole interval is where the claim wants it, none of it, or a part."""
        least, most = _wanted(self.claim)
        if least <= self.low and self.high <= most:
            return "reached" if self.seeds > 1 else "reached by one seed"
        if self.high < least or most < self.low:
            return "not reached" if self.seeds > 1 else "not reached by one seed"
        return "cannot tell"


@dataclass(frozen=True, slots=True)
class Experiment:
    """Describe one comparison of a paper, as guests can make it."""

    name: str
    about: str
    freeze: Callable[[str], Model]  # the model, by the kernel's series; compares nothing
    words: str  # shell functions that its script uses
    script: Callable[[Model, int], Sequence[str]]  # lines, by model and seed
    claims: tuple[Claim, ...]
    cpus: int = 1
    seeds_per_guest: int = 1  # more where the script leaves nothing behind

    def whole(self, model: Model, *seeds: int) -> str:
        """Return the whole script: a line `seed N` for each seed, then `row CASE METRIC VALUE`s."""
        lines = [TOOLS + self.words]
        for seed in seeds:
            lines += [f"SEED={seed}; echo seed {seed}", *self.script(model, seed)]
        return "\n".join(lines)


def digest(model: Model) -> str:
    """Return the hash that ties rows to the model they were taken with."""
    return hashlib.sha256(json.dumps(model, sort_keys=True).encode()).hexdigest()


def rows_of(said: str) -> list[Row]:
    """Return the rows among a guest's lines, each of the seed that was told last."""
    seed, found = 0, []
    for words in map(str.split, said.splitlines()):
        if words[:1] == ["seed"]:
            seed = int(words[1])
        elif len(words) == 4 and words[0] == "row":
            found.append(Row(seed, words[1], words[2], float(words[3])))
    return found


def in_guest(script: str, series: str, *, cpus: int = 1, timeout_s: int = SEED_S) -> str:
    """Return what a script printed in a guest that counts its time in instructions."""
    request = GuestRequest(
        argv=("bash", "-euc", script),
        series=series,
        disks=(),
        cwd=REPOSITORY,
        reproducible=True,
        timeout_s=timeout_s,
        # Reproducible guests have one CPU; more share its stream of instructions.
        devices=("-smp", str(cpus)) if cpus > 1 else (),
    )
    answer = run_in_guest(request, CACHE)
    if answer.status:
        raise SystemExit(f"the guest ended with {answer.status}: {answer.stderr[-2000:]}")
    return answer.stdout


def frozen(experiment: Experiment, series: str) -> Model:
    """Return the stored model; make and store it if there is none."""
    path = STORE / f"{experiment.name}-{series}.model.json"
    if not path.exists():
        STORE.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(experiment.freeze(series), indent=2, sort_keys=True) + "\n")
    model: Model = json.loads(path.read_text())
    return model


def measure(experiment: Experiment, model: Model, seeds: Sequence[int], series: str) -> list[Row]:
    """Run all cases of some seeds in one guest; return their rows."""
    script, timeout_s = experiment.whole(model, *seeds), SEED_S * len(seeds)
    return rows_of(in_guest(script, series, cpus=experiment.cpus, timeout_s=timeout_s))


def judge(claim: Claim, rows: Sequence[Row]) -> Judged | None:
    """Judge a claim by the rows, seed by seed; None where a case is missing."""
    ratios = []
    for seed in sorted({row.seed for row in rows}):
        found = {r.case: r.value for r in rows if r.seed == seed and r.metric == claim.metric}
        if claim.over not in found or any(case not in found for case in claim.under):
            return None
        under = max((found[case] for case in claim.under), default=1.0)
        if not under:
            return None
        ratios.append(found[claim.over] / under)
    if not ratios:
        return None
    ratios.sort(reverse=claim.at_most)
    middle = mean(ratios)
    of_mean = t_interval(ratios) or Interval(middle, middle)
    return Judged(claim, ratios[0], middle, ratios[-1], len(ratios), of_mean.low, of_mean.high)


def _wanted(claim: Claim) -> tuple[float, float]:
    """Return the least and the most that a claim allows."""
    if claim.at_most:
        return -inf, claim.wanted
    return claim.wanted, inf if claim.most is None else claim.most


def stored_rows(experiment: Experiment, model: Model, series: str) -> list[Row]:
    """Return the rows of earlier runs with this model; end with a sentence for another."""
    path = STORE / f"{experiment.name}-{series}.json"
    if not path.exists():
        return []
    document = json.loads(path.read_text())
    if document["model_sha256"] != digest(model):
        raise SystemExit(f"{path} holds rows of another model; move it away to measure again")
    return [Row(**row) for row in document["rows"]]


def store(
    experiment: Experiment,
    model: Model,
    rows: Sequence[Row],
    series: str,
    wall_s: Mapping[int, float] = MappingProxyType({}),
) -> None:
    """Store the experiment as JSON, its rows as CSV; `wall_s` is how long each new seed took."""
    path = STORE / f"{experiment.name}-{series}.json"
    before = json.loads(path.read_text()).get("wall_s", {}) if path.exists() else {}
    rows = sorted(rows, key=lambda row: (row.seed, row.case, row.metric))
    judged = [found for claim in experiment.claims if (found := judge(claim, rows))]
    document = {
        "experiment": experiment.name,
        "about": experiment.about,
        "kernel": series,
        "model": model,
        "model_sha256": digest(model),
        "wall_s": before | {str(seed): round(took) for seed, took in wall_s.items()},
        "claims": [asdict(found) | {"verdict": found.verdict} for found in judged],
        "rows": [asdict(row) for row in rows],
    }
    path.write_text(json.dumps(document, indent=1) + "\n")
    with path.with_suffix(".csv").open("w", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows(
            [["seed", "case", "metric", "value"], *map(astuple, rows)]
        )


# The drives, one row of results, and fio's terse output (version 3): 8 and 49 are the rates, 16
# and 57 the mean completion latencies in us.
TOOLS = """
echo 1 > /proc/sys/kernel/printk
F=/sys/kernel/config/ssdb_flash/ssd0; T=/sys/kernel/config/ssdb_tmerge/tm0
S=/sys/kernel/config/ssdb_slam/a
put() { for pair in "${@:2}"; do echo "${pair#*=}" > $1/${pair%%=*}; done; }
row() { echo "row $1 $2 $3"; }
count() { awk -v n=$2 '$1 == n {print $2}' $1/counters; }
rate() { awk -F';' '{print $8 + $49}' /run/terse; }
latency_us() { awk -F';' '{print $16 + $57}' /run/terse; }
# A guest that waits for a file of the host is idle, and its clock leaps to its next timer: what is
# timed from outside runs from memory, and the shell itself reads the clock.
own() { mkdir -p /run/own; for b in "$@"; do cp $(command -v $b) /run/own/
  cp $(ldd $(command -v $b) | grep -o '/[^ ]*') /run/own/; done; }
mine() { LC_ALL=C /run/own/ld-linux-x86-64.so.2 --inhibit-cache --library-path /run/own \
  /run/own/"$@"; }
us() { echo ${EPOCHREALTIME/[.,]/}; }
load() { fio --name=l --direct=1 --bs=4k --randseed=$SEED --norandommap --time_based \
  --runtime=${RUN:-300ms} --thread --group_reporting --minimal "$@" > /run/terse; }
drive() { mkdir $F; put $F capacity_bytes=268435456 ftl=direct wbuf_bytes=0 t_read_ns=0 \
  t_prog_ns=0 fw_read_ns=0 fw_write_ns=0 store=0 "$@" power=1; }
"""

# A disk behind the SCSI layer that moves no data and needs no time: its name is in DISK.
SCSI_DISK = """
scsi_disk() { modprobe scsi_debug dev_size_mb=64 delay=0 ndelay=0 fake_rw=1 max_queue=$1 \\
    host_max_queue=$1
  until DISK=$(ls /sys/bus/pseudo/drivers/scsi_debug/adapter0/host*/target*/*:*/block 2> /dev/null)
    [ -n "$DISK" ]; do sleep 0.1; done
  [ -e /dev/$DISK ] || mknod /dev/$DISK b $(tr : ' ' < /sys/block/$DISK/dev)
  echo none > /sys/block/$DISK/queue/scheduler; }
"""
# Where caches are dropped, fio itself would come from the host again while the guest is idle.
FIO_IN_MEMORY = """
own fio dd sync
fio() { mine fio "$@"; }
"""


MEASURED = ("software_ns", "hit_ns", "cpus")  # of a model, but no setting of its drive


def assignments(values: Mapping[str, int | str]) -> str:
    """Return `name=value` words for the shell's `put` and `drive`."""
    return " ".join(f"{name}={value}" for name, value in values.items() if name not in MEASURED)


def latency_ns(series: str, *lines: str) -> int:
    """Return the mean latency of the load that a script puts on a drive which takes no time."""
    said = in_guest("\n".join([TOOLS, *lines, "latency_us"]), series)
    return round(float(said.split()[-1]) * 1000)
