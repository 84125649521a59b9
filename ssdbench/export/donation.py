"""Make an anonymous archive of a run, which helps to test the steady-state rules.

The archive has only the files below, with nothing about the host and no serial number of the drive.
Before it is returned, its files are searched for every name of the drive and of the host that the
run has stored.

    README.txt     what the archive is
    about.json     model, firmware, size; verdicts, points and codes of findings
    INDEX.csv      list of the warm-ups, for `nox -s judge-the-judges -- --real`
    series/        bytes per second of each warm-up
    repeats/       the seconds of each repeat
    pages/         log pages of the drive before and after the run, without serial numbers
"""

import csv
import gzip
import io
import json
import tarfile
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ssdbench.errors import UsageError
from ssdbench.model.found import WarmUp
from ssdbench.model.result import RunResult
from ssdbench.model.rundirectory import PHASE, SECONDS, SECONDS_COLUMNS
from ssdbench.model.workload import Workload
from ssdbench.report.read import StoredRun
from ssdbench.target.anonymous import blanked
from ssdbench.units import GIB

README = """Series and pages of one drive, by ssdbench; made anonymous by `ssdbench donate`.
No serial number, no world-wide name, nothing of the host. INDEX.csv and series/ can be read by
`nox -s judge-the-judges -- --real DIRECTORY` once they are unpacked.
"""
LEAST_NAME = 6  # characters; a shorter name would be found by chance
_PAGES = (("drive-before", "before"), ("drive-after", "after"))


def donation(run: StoredRun) -> dict[str, bytes]:
    """Return the files of the archive by name.

    Raises UsageError if the drive is simulated, if the run has no data for the archive, or if a
    file contains a name of the drive or host.
    """
    result = run.result
    if result.target.modelled:
        raise UsageError(
            f"{run.directory} is a run on a simulated drive; only runs on real drives are useful",
            hint="Name a run on a real drive.",
        )
    series = dict(_series(run))
    files = {
        "README.txt": README.encode(),
        "about.json": (json.dumps(_about(result), indent=1) + "\n").encode(),
        **({"INDEX.csv": _index(result, series)} if series else {}),
        **{name: data for name, (_, data) in series.items()},
        **dict(_repeats(run)),
        **dict(_pages(run)),
    }
    if not any(name.startswith(("series/", "repeats/")) for name in files):
        raise UsageError(f"{run.directory} has no seconds of any workload")
    _require_anonymous(files, _names(run))
    return files


def export(run: StoredRun) -> bytes:
    """Return the archive as .tar.gz; the same run always gives the same bytes."""
    files = donation(run)
    plain = io.BytesIO()
    with tarfile.open(fileobj=plain, mode="w", format=tarfile.USTAR_FORMAT) as tar:
        for name in sorted(files):
            entry = tarfile.TarInfo(f"ssdbench-donation/{name}")
            entry.size = len(files[name])
            tar.addfile(entry, io.BytesIO(files[name]))
    return gzip.compress(plain.getvalue(), mtime=0)


def _about(result: RunResult) -> dict[str, Any]:
    target = result.target
    return {
        "ssdbench": result.ssdbench_version,
        "model": target.model,
        "firmware": target.firmware,
        "kind": target.kind.value,
        "size_bytes": target.size_bytes,
        "logical_block_bytes": target.logical_block_bytes,
        "physical_block_bytes": target.physical_block_bytes,
        "verdict": result.verdict,
        "bytes_written": result.bytes_written,
        "findings": _codes(result.findings),
        "warm_ups": [
            {"workload": _label(found), "findings": _codes(stage.findings)}
            | ({"verdict": found.verdict.model_dump(mode="json")} if found.verdict else {})
            for stage, found in result.having(WarmUp)
        ],
        "points": [
            {
                "workload": _nameless(point.point.workload).model_dump(mode="json"),
                "verdict": point.verdict,
                "iops": [repeat.iops for repeat in point.repeats],
                "estimates": [
                    estimate.model_dump(mode="json", exclude={"artifacts"})
                    for estimate in point.estimates
                ],
                "findings": _codes(point.findings),
            }
            for point in result.points
        ],
    }


def _codes(findings: Sequence[Any]) -> list[str]:
    """Return only the codes of findings, because their sentences may contain the drive's name."""
    return sorted({finding.code.value for finding in findings})


def _series(run: StoredRun) -> Iterator[tuple[str, tuple[float, bytes]]]:
    """Yield each warm-up that writes: its file name, the size of its range in GiB, its CSV data."""
    for number, (_, found) in enumerate(run.result.having(WarmUp), start=1):
        work = found.workload
        columns = run.table(found.seconds_csv) if found.seconds_csv else None
        if columns is None or work is None or not work.writes:
            continue
        rows = [("end_s", "bytes_per_s")]
        for t_s, duration_s, read, write in zip(
            *(columns[n] for n in ("t_s", "duration_s", "read_bytes", "write_bytes")), strict=True
        ):
            rows.append((f"{t_s:.3f}", f"{(read + write) / max(duration_s, 1e-9):.0f}"))
        yield f"series/{number:02d}-warm-up.csv", (work.range.length_bytes / GIB, _csv(rows))


def _index(result: RunResult, series: Mapping[str, tuple[float, bytes]]) -> bytes:
    rows: list[tuple[str, ...]] = [("file", "drive", "span_GiB")]
    model = result.target.model or "unknown"
    rows += [(name, model, f"{span:.6f}") for name, (span, _) in series.items()]
    return _csv(rows)


def _repeats(run: StoredRun) -> Iterator[tuple[str, bytes]]:
    for place, point in enumerate(run.result.points, start=1):
        for repeat in point.repeats:
            columns = run.table(f"{repeat.artifacts}/{SECONDS}", marked=(PHASE, "measure"))
            if columns is None:
                continue
            names = [name for name in (*SECONDS_COLUMNS, PHASE) if name in columns]
            head = tuple("counted" if name == PHASE else name for name in names)
            numbers = zip(*(columns[name] for name in names), strict=True)
            rows = [head, *(tuple(f"{value:.10g}" for value in row) for row in numbers)]
            yield f"repeats/{place:02d}-{repeat.repeat:02d}.csv", _csv(rows)


def _pages(run: StoredRun) -> Iterator[tuple[str, bytes]]:
    for directory, when in _PAGES:
        index = run.directory / directory / "index.json"
        try:
            listed = json.loads(index.read_text())["pages"]
            stored = [
                (entry["name"], entry["file"], (index.parent / entry["file"]).read_bytes())
                for entry in listed
                if "/" not in entry["file"]
            ]
        except FileNotFoundError:
            continue
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise UsageError(f"{index} cannot be read: {error}") from error
        for name, file, page in stored:
            if (kept := blanked(name, page)) is not None:
                yield f"pages/{when}/{file}", kept


def _names(run: StoredRun) -> set[str]:
    """Return every stored name by which somebody could identify the drive or the host."""
    target, host = run.result.target, run.result.host
    said = {target.serial, target.id, target.node, target.name, target.via}
    said |= {target.id.rpartition(".")[2], *target.id.split("_")}
    said |= {target.facts.get("world wide name", "").rpartition(".")[2]}
    said |= {value for name, value in host.items() if name.lower() in ("host", "hostname", "node")}
    said -= set(target.model.replace(" ", "_").split("_")) | {target.model, ""}
    return {name for name in said if len(name) >= LEAST_NAME}


def _require_anonymous(files: Mapping[str, bytes], names: set[str]) -> None:
    """Raise UsageError if a file of the archive contains a name of the drive or host."""
    for name in sorted(names):
        raw = name.encode()
        swapped = b"".join(raw[i + 1 : i + 2] + raw[i : i + 1] for i in range(0, len(raw), 2))
        forms = [raw, raw.lower(), raw.upper(), swapped]
        if len(name) >= 16 and not len(name) % 2 and all(c in "0123456789abcdef" for c in name):
            forms.append(bytes.fromhex(name))
        for file, data in files.items():
            if file.startswith(("series/", "repeats/")):
                continue  # their numbers can equal a serial number by chance
            if any(form in data for form in forms):
                raise UsageError(
                    f"nothing was written: {file} would have {name!r}, a name of the drive or host",
                    hint="Please report this as a bug, without the run.",
                )


def _csv(rows: Sequence[tuple[str, ...]]) -> bytes:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows)
    return text.getvalue().encode()


def _label(found: WarmUp) -> str:
    return _nameless(found.workload).label() if found.workload else found.label


def _nameless(workload: Workload) -> Workload:
    """Return a workload without its names from the user's job file; jobs are numbered instead."""
    streams = tuple(
        stream.model_copy(update={"name": f"job {number}"})
        for number, stream in enumerate(workload.streams, 1)
    )
    title = "job file" if streams else workload.title
    return workload.model_copy(update={"streams": streams, "title": title})
