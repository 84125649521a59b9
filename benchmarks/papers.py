"""Run the experiments of the papers, keep their rows, and write a small page of each.

    nox -s papers                            all: hours, most of it in guests
    nox -s papers -- paper-dunn-fig19 scsi   some; the rest stay as they are
    nox -s papers -- --pages                 run nothing, write the pages again from the rows

A profile `paper-…` is run on its simulated drive; its rows go to reports/gallery/papers/NAME.csv
and what else the run says to NAME.json. An experiment of `benchmarks.kernel` keeps its rows in
reports/experiments. From these files alone come the pages NAME.md, their figures, the tables of
docs/experiments, and (checked by a test) the numbers of docs/reproduction.md.
"""

import json
import sys
import tempfile
from collections.abc import Sequence
from datetime import UTC, datetime
from os.path import commonprefix
from pathlib import Path
from statistics import mean
from typing import Any

import matplotlib as mpl
import numpy as np
import pandas as pd
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure
from ruamel.yaml import YAML

from benchmarks.kernel import pages
from benchmarks.kernel.__main__ import EXPERIMENTS
from benchmarks.kernel.experiment import STORE
from benchmarks.tables import markdown
from ssdbench.host.command import run

ROOT = Path(__file__).parents[1]
PAPERS = ROOT / "reports" / "gallery" / "papers"
PROFILES = ROOT / "profiles" / "papers"
RUN_LIMIT_S = 4 * 3600.0
KIB = 1 << 10
COLUMNS = (
    "point", "workload", "pattern", "block_bytes", "read_percent", "iodepth", "numjobs",
    "span_percent", "iops", "iops_low", "iops_high", "bound", "repeats",
    "mb_per_s", "mb_per_s_low",
    "mb_per_s_high", "p50_us", "p99_us", "verdict",
)  # fmt: skip
Values = dict[str, str]
Bar = tuple[float, float, float]  # mean, least, most


def profiles() -> list[str]:
    """Return the names of the papers' profiles."""
    return sorted(path.stem for path in PROFILES.glob("*.yaml"))


def _csv(path: Path) -> list[Values]:
    rows = pd.read_csv(path, dtype=str, keep_default_na=False).to_dict("records")
    return [{str(name): value for name, value in row.items()} for row in rows]


def _told(name: str) -> dict[str, Any]:
    """Return what is kept of a profile's run besides its rows."""
    told: dict[str, Any] = json.loads((PAPERS / f"{name}.json").read_text())
    return told


def _row(found: Values) -> Values:
    """Return a point with throughput beside the rate and latencies in microseconds."""
    kept = {name: found.get(name, "") for name in COLUMNS}
    kept |= {
        "pattern": found["access_pattern"],
        "iops_low": found["iops_ci_low"],
        "iops_high": found["iops_ci_high"],
        "bound": found["iops_bound"],
    }
    for name, iops in (("", "iops"), ("_low", "iops_low"), ("_high", "iops_high")):
        if kept[iops] and found["block_bytes"]:
            rate = float(kept[iops]) * float(found["block_bytes"]) / 1e6
            kept[f"mb_per_s{name}"] = f"{rate:.6g}"
    for name, ns in (("p50_us", "lat_p50_ns"), ("p99_us", "lat_p99_ns")):
        kept[name] = f"{float(found[ns]) / 1000:.6g}" if found[ns] else ""
    return {name: kept[name] for name in COLUMNS}


def told_of(directory: Path) -> dict[str, Any]:
    """Return what a run says besides its points: warm-up, block size, its times."""
    result = json.loads((directory / "result.json").read_text())
    told: dict[str, Any] = {
        "title": result["title"],
        "target": result["target"]["name"],
        "seed": result["seed"],
        "verdict": result["verdict"],
        "version": result["ssdbench_version"],
        "simulated_s": round(sum(stage["duration_s"] for stage in result["stages"])),
        "wall_s": round(sum(stage["wall_s"] for stage in result["stages"])),
        "found": [],
    }
    for stage in result["stages"]:
        found = stage["found"]
        if found and found["kind"] == "steady":
            told["found"].append(_warmed(directory, found))
        if found and found["kind"] == "blocksize":
            told["found"] += [{"what": found["answer"]}, {"what": found["buffer"]}]
            told["found"] += [
                _strided(path) for path in sorted(directory.glob("stages/*/stride-*.csv"))
            ]
    told["found"].sort(key=lambda one: int(one.get("stride_bytes", 0)))
    return told


def _warmed(directory: Path, found: dict[str, Any]) -> dict[str, Any]:
    rates = pd.read_csv(directory / found["seconds_csv"])["write_bytes"] / 1e6
    first, last = rates[:10].mean(), rates[-60:].mean()
    return {
        "what": f"warm-up: {found['says']}",
        "first_10_s_mb_per_s": round(first, 4),
        "last_mb_per_s": round(last, 4),
        "left_percent": round(100 * last / first, 2),
    }


def _strided(path: Path) -> dict[str, Any]:
    """Return how many of a stride's writes are peaks, how far apart, and their throughput."""
    writes = pd.read_csv(path)
    peaks = writes["offset_bytes"][writes["peak"] == 1]
    stride = int(path.stem.rpartition("-")[2])
    rates = pd.read_csv(path.with_name("throughput.csv"), index_col="stride_bytes")["mb_per_s"]
    return {
        "what": f"stride {stride // KIB} KiB",
        "stride_bytes": stride,
        "writes_shown": len(writes),
        "peaks": len(peaks),
        "peaks_apart_kib": float(peaks.diff().median()) / KIB if len(peaks) > 1 else None,
        "median_us": round(float(writes["latency_ns"].median()) / 1000, 3),
        "mb_per_s": float(rates[stride]) if stride in rates.index else None,
    }


def keep(name: str, directory: Path) -> None:
    """Store what the page of a run is made of."""
    PAPERS.mkdir(parents=True, exist_ok=True)
    rows = pd.DataFrame(map(_row, _csv(directory / "summary.csv")), columns=COLUMNS)
    rows.to_csv(PAPERS / f"{name}.csv", index=False)
    told = told_of(directory) | {"taken": f"{datetime.now(UTC):%Y-%m-%d}"}
    (PAPERS / f"{name}.json").write_text(json.dumps(told, indent=1) + "\n")


def taken(name: str) -> None:
    """Run a profile or an experiment and keep its rows. Raises CommandFailed."""
    if name in EXPERIMENTS:
        argv = [sys.executable, "-m", "benchmarks.kernel", name]
        run(argv, timeout_s=RUN_LIMIT_S, env={"PYTHONPATH": str(ROOT)})
        return
    with tempfile.TemporaryDirectory(prefix="papers-") as place:
        directory = Path(place) / name
        # A run that is not validated is as good here: exit code 1.
        argv = [sys.executable, "-m", "ssdbench", "run", name, "--output", str(directory)]
        run(argv, ok=(0, 1), timeout_s=RUN_LIMIT_S)
        keep(name, directory)


def page_of_profile(name: str) -> str:
    """Return the page of a profile, made from its rows."""
    told, rows = _told(name), _csv(PAPERS / f"{name}.csv")
    title = YAML(typ="safe").load(PROFILES / f"{name}.yaml")["title"]
    parts = [
        f"# {title}",
        f"**SIMULATED**: `{told['target']}`, seed {told['seed']}, {told['verdict']}, taken on "
        f"{told['taken']}. `ssdbench run {name}` took {told['wall_s']} s for "
        f"{told['simulated_s'] / 3600:.1f} hours of the drive's time.",
    ]
    if rows:
        head = ("workload", "IOPS, mean", "95 % interval", "n", "MB/s", "p50, us", "p99, us")
        lines = [
            (
                row["workload"] + _share(row),
                _many(row["iops"]),
                f"{_many(row['iops_low'])} … {_many(row['iops_high'])}",
                row["repeats"],
                _many(row["mb_per_s"]),
                row["p50_us"],
                row["p99_us"],
            )
            for row in rows
        ]
        parts.append(markdown(head, lines, right=range(1, 7)))
    strides = [
        (
            f"{one['stride_bytes'] // KIB} KiB",
            f"{one['peaks']} of {one['writes_shown']}",
            one["peaks_apart_kib"] or "",
            f"{one['median_us']:,}",
            one["mb_per_s"],
        )
        for one in told["found"]
        if "stride_bytes" in one
    ]
    if strides:
        of_strides = ("stride", "peaks", "apart, KiB", "median, us", "MB/s")
        parts.append(markdown(of_strides, strides, right=range(1, 5)))
    parts += [
        f"{one['what']}. In the first 10 s {one['first_10_s_mb_per_s']} MB/s, in the last minute "
        f"{one['last_mb_per_s']}: {one['left_percent']} % are left."
        if "left_percent" in one
        else f"{one['what']}."
        for one in told["found"]
        if "stride_bytes" not in one
    ]
    if drawn(name):
        parts.append(f"![{title}]({name}.svg)")
    return "\n\n".join(parts) + "\n"


def _share(row: Values) -> str:
    return f", {float(row['span_percent']):g} % of the drive" if row["span_percent"] else ""


def _many(number: str) -> str:
    return pages.many(float(number)) if number else ""


def page_of_experiment(name: str) -> str:
    """Return the page of an experiment in guests, from its stored rows of every kernel."""
    parts = [f"# {name}: {EXPERIMENTS[name].about}"]
    for document in _stored(name):
        seeds = sorted({row["seed"] for row in document["rows"]})
        took = document.get("wall_s", {}).values()
        told = f"seed{'s' * (len(seeds) > 1)} {', '.join(map(str, seeds))}"
        parts.append(f"## Linux {document['kernel']}, {told}")
        if took:
            times = dict.fromkeys((min(took), max(took)))
            parts.append(f"A seed took {' to '.join(f'{time:,}' for time in times)} s.")
        parts.append(pages.claims(document, ".4g"))
        metrics = list(dict.fromkeys(row["metric"] for row in document["rows"]))
        parts.append(pages.cases(document["rows"], metrics, "{:,.6g}".format))
    parts.append(f"`python -m benchmarks.kernel {name}`; rows in `reports/experiments`.")
    if drawn(name):
        parts.append(f"![{name}]({name}.svg)")
    return "\n\n".join(parts) + "\n"


def _stored(name: str) -> list[dict[str, Any]]:
    kernels = ("6.12", "6.1")
    return [pages.stored(name, k) for k in kernels if (STORE / f"{name}-{k}.json").is_file()]


def drawn(name: str) -> bool:
    """Draw a figure from the rows beside the page; False where there is nothing to draw."""
    figure = Figure(figsize=(7.5, 4.2), layout="constrained")
    axes = figure.add_subplot()
    if name in EXPERIMENTS or not _lines(name, axes):
        label, bars = _bars(name) if name in EXPERIMENTS else _point_bars(name)
        if len(bars) < 2:
            return False
        figure.set_size_inches(7.5, 0.6 + 0.24 * len(bars))
        middle, least, most = (np.array(part) for part in zip(*bars.values(), strict=True))
        axes.barh(list(bars), middle, xerr=[middle - least, most - middle], color="#7a9cc6")
        axes.invert_yaxis()
        axes.set_xlabel(label)
    axes.grid(visible=True, alpha=0.3)
    with mpl.rc_context({"svg.fonttype": "none", "svg.hashsalt": name, "font.size": 9}):
        canvas = FigureCanvasSVG(figure)
        canvas.print_svg(str(PAPERS / f"{name}.svg"), metadata={"Date": None})  # type: ignore[no-untyped-call]
    return True


def _bars(name: str) -> tuple[str, dict[str, Bar]]:
    """Return a label, and each case of an experiment with mean, least and most of its seeds."""
    document = _stored(name)[0]
    rows, metric = document["rows"], document["claims"][0]["claim"]["metric"]
    cases = dict.fromkeys(row["case"] for row in rows)
    values = {case: found for case in cases if (found := pages.of(rows, case, metric))}
    kernel = document["kernel"]
    label = f"{metric.replace('_', ' ')}, Linux {kernel}: mean, least, most of the seeds"
    return label, {case: (mean(v), min(v), max(v)) for case, v in values.items()}


def _point_bars(name: str) -> tuple[str, dict[str, Bar]]:
    """Return throughput: first seconds and last minute of the warm-up, then each point."""
    bars: dict[str, Bar] = {}
    for one in _told(name)["found"]:
        if "left_percent" in one:
            first, last = one["first_10_s_mb_per_s"], one["last_mb_per_s"]
            bars["warm-up, first 10 s"] = (first, first, first)
            bars["warm-up, last minute"] = (last, last, last)
    rows = _csv(PAPERS / f"{name}.csv")
    same = commonprefix([row["point"] for row in rows]).rpartition("-")[0] if len(rows) > 1 else ""
    for row in rows:
        middle, low, high = (float(row[f"mb_per_s{end}"]) for end in ("", "_low", "_high"))
        bars[row["point"].removeprefix(f"{same}-") if same else row["workload"]] = (
            middle, low, high,
        )  # fmt: skip
    return "MB/s: mean and 95 % interval", bars


def _lines(name: str, axes: Any) -> bool:
    """Draw throughput by block size or stride, a line for each other setting, if there is any."""
    found = _told(name)["found"]
    strides = [(one["stride_bytes"], one["mb_per_s"]) for one in found if one.get("mb_per_s")]
    lines: dict[str, list[tuple[float, float]]] = {"4 KiB written": strides} if strides else {}
    for row in _csv(PAPERS / f"{name}.csv"):
        way = {"100": "read", "0": "write"}.get(row["read_percent"], row["read_percent"])
        key = f"{row['pattern']} {way}, QD {row['iodepth']} x {row['numjobs']}"
        lines.setdefault(key, []).append((float(row["block_bytes"]), float(row["mb_per_s"])))
    if max((len({x for x, _ in line}) for line in lines.values()), default=0) < 2:
        return False
    for label, line in lines.items():
        ordered = sorted(line)
        axes.plot([x / KIB for x, _ in ordered], [y for _, y in ordered], "o-", label=label)
    axes.set_xscale("log", base=2)
    axes.set_xlabel("stride, KiB" if strides else "block, KiB")
    axes.set_ylabel("MB/s")
    axes.set_ylim(bottom=0)
    axes.legend()
    return True


def write_pages() -> list[str]:
    """Write all pages for which there are rows, and their list; return the names."""
    made = []
    pages.write()
    PAPERS.mkdir(parents=True, exist_ok=True)
    for name in [*profiles(), *EXPERIMENTS]:
        if name in EXPERIMENTS and _stored(name):
            text = page_of_experiment(name)
        elif (PAPERS / f"{name}.json").is_file():
            text = page_of_profile(name)
        else:
            continue
        (PAPERS / f"{name}.md").write_text(text)
        made.append((name, text.partition("\n")[0].removeprefix("# ").removeprefix(f"{name}: ")))
    (PAPERS / "README.md").write_text(
        "# The papers' experiments, as we ran them\n\n"
        "`nox -s papers` makes these pages again. Each is made from its rows: those of a profile "
        "are beside it (NAME.csv,\nNAME.json), those of an experiment in guests are in "
        "[reports/experiments](../../experiments). What they mean is in\n"
        "[the papers, figure by figure](../../../docs/reproduction.md). All drives are "
        "**simulated**.\n\n" + "\n".join(f"- [{name}]({name}.md): {head}" for name, head in made)
        + "\n"
    )  # fmt: skip
    return [name for name, _ in made]


def main(words: Sequence[str]) -> int:
    """Run what is named, or all; then write the pages."""
    names = [word for word in words if word != "--pages"]
    known = [*profiles(), *EXPERIMENTS]
    if unknown := [name for name in names if name not in known]:
        print(f"no experiment {unknown[0]}; there are: {', '.join(known)}", file=sys.stderr)
        return 2
    for name in [] if "--pages" in words else names or known:
        print(f"{name} …", flush=True)
        taken(name)
    for name in write_pages():
        print(PAPERS / f"{name}.md")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
