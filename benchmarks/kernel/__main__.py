"""`python -m benchmarks.kernel EXPERIMENT`: freeze the model, compare, keep, judge."""

import argparse
import time

from benchmarks.kernel import beside, dunn, heger, pages, seppanen, wimpy, yu
from benchmarks.kernel.experiment import digest, frozen, measure, store, stored_rows
from ssdbench.lab.kernels import OFFERS

EXPERIMENTS = {
    experiment.name: experiment
    for module in (seppanen, dunn, yu, heger, wimpy, beside)
    for experiment in module.EXPERIMENTS
}


def main() -> None:
    """Take the seeds that are not stored, keep their rows, print cases and claims."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("experiment", choices=EXPERIMENTS)
    parser.add_argument("--kernel", default="6.12", choices=OFFERS)
    parser.add_argument("--seeds", type=int, nargs="*", default=[1, 2, 3, 4, 5])
    options = parser.parse_args()
    experiment = EXPERIMENTS[options.experiment]
    model = frozen(experiment, options.kernel)
    print(f"model {digest(model)[:16]}: {model}", flush=True)
    rows = stored_rows(experiment, model, options.kernel)
    lacking = sorted(set(options.seeds) - {row.seed for row in rows})
    for first in range(0, len(lacking), experiment.seeds_per_guest):
        seeds = lacking[first : first + experiment.seeds_per_guest]
        began = time.monotonic()
        rows += measure(experiment, model, seeds, options.kernel)
        took = (time.monotonic() - began) / len(seeds)
        store(experiment, model, rows, options.kernel, dict.fromkeys(seeds, took))
        print(f"seeds {', '.join(map(str, seeds))}: {took:.0f} s each", flush=True)
    store(experiment, model, rows, options.kernel)  # judged by the claims of today
    metrics = ", ".join(dict.fromkeys(row.metric for row in rows))
    for kind in ("cases", "claims"):
        print(f"\n{pages.table(kind, experiment.name, metrics, options.kernel)}")


if __name__ == "__main__":
    main()
