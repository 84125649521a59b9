"""`python -m benchmarks.kernel EXPERIMENT`: freeze the model, compare, keep, judge."""

import argparse
import time

from benchmarks.kernel import (
    bpref,
    bpref2008,
    cost,
    dunn,
    flash,
    heger,
    processes2008,
    seppanen,
    slam,
    tmerge,
    tmerge8,
    wimpy,
    yu,
)
from benchmarks.kernel.experiment import (
    Experiment,
    cases_table,
    claims_table,
    digest,
    frozen,
    measure,
    store,
    stored_rows,
)
from ssdbench.lab.kernels import OFFERS

_ALL: tuple[Experiment, ...] = (
    slam.Slam(),
    tmerge.Tmerge(),
    tmerge8.Tmerge8(),
    bpref.Bpref(),
    bpref2008.Bpref2008("postmark"),
    bpref2008.Bpref2008("mixed"),
    bpref2008.Bpref2008Noop(),
    processes2008.Processes2008(),
    dunn.SURFACES,
    dunn.OtherDrive("memoright-gt", "memoright", 1.13, bpref2008.SETUP),
    dunn.OtherDrive("samsung-mcbqe32g", "samsung", 1.11, dunn.HALF),
    dunn.DiskLike(),
    dunn.DBENCHES,
    cost.Cost(),
    flash.Flash(),
    seppanen.MITIGATION,
    seppanen.LAYER,
    seppanen.FILESYSTEMS,
    seppanen.PAGECACHE,
    yu.ONFILES,
    yu.MERGECOUNTS,
    yu.BREAKDOWN,
    heger.SCHEDULERS,
    heger.AGING,
    wimpy.SCHEDULERS,
    wimpy.TIMING,
)
EXPERIMENTS = {experiment.name: experiment for experiment in _ALL}


def main() -> None:
    """Seeds that are stored are not taken again."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("experiment", choices=EXPERIMENTS)
    parser.add_argument("--kernel", default="6.12", choices=OFFERS)
    parser.add_argument("--seeds", type=int, nargs="*", default=[1, 2, 3, 4, 5])
    options = parser.parse_args()
    experiment = EXPERIMENTS[options.experiment]
    model = frozen(experiment, options.kernel)
    print(f"model {digest(model)[:16]}: {model}", flush=True)
    rows = stored_rows(experiment, model, options.kernel)
    for seed in sorted(set(options.seeds) - {row.seed for row in rows}):
        began = time.monotonic()
        rows += measure(experiment, model, seed, options.kernel)
        took = time.monotonic() - began
        store(experiment, model, rows, options.kernel, {seed: took})
        print(f"seed {seed}: {took:.0f} s", flush=True)
    store(experiment, model, rows, options.kernel)  # judged by the claims of today
    for metric in dict.fromkeys(row.metric for row in rows):
        print(f"\n{cases_table(rows, metric)}")
    print(f"\n{claims_table(experiment, rows)}")


if __name__ == "__main__":
    main()
