"""A lot of drives with planted rates: run directories as the engine leaves them, without bulk."""

from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any

from ssdbench.engine.journal import NAME, RESULT_SHA256, Journal, Kind
from ssdbench.model.result import RunResult
from tests.support.builders import StoredRunBuilder, a_target, with_found

PLANTED_IOPS = 6_000.0


def a_lot(
    directory: Path, shares: Sequence[float], *, first: int = 1, **changes: Any
) -> list[Path]:
    """A run for each share of the planted rate, one point each; `changes` are those of results."""
    builder = StoredRunBuilder(directory / ".pattern", repeats=3, measure_s=2)
    builder.sweep(blocks=(4096,), reads=(0,), depths=(32,))
    pattern = builder.write()
    made = []
    for place, share in enumerate(shares, start=first):
        name = f"drive-{place:02d}"
        target = a_target(id=f"sim-drive-{place}", serial=f"S{place:04d}")
        own = {"run_id": name, "target": target, **changes}
        made.append(a_drive(directory / name, pattern, share, **own))
    for path in sorted((directory / ".pattern").rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() else path.unlink()
    (directory / ".pattern").rmdir()
    return made


def a_drive(directory: Path, pattern: RunResult, share: float, **changes: Any) -> Path:
    """The run of one drive whose rates are a share of the pattern's."""
    stage = pattern.stages[0]
    points = [
        point.model_copy(
            update={
                "estimates": tuple(
                    e.model_copy(
                        update={
                            name: PLANTED_IOPS * share * factor
                            for name, factor in (
                                ("value", 1), ("ci_low", 0.999), ("ci_high", 1.001), ("bound", 0.98)
                            )
                        }
                    )
                    if e.metric == "iops"
                    else e
                    for e in point.estimates
                ),
                "verdict": changes.get("verdict", point.verdict),
            }
        )
        for point in stage.points
    ]  # fmt: skip
    result = pattern.model_copy(
        update={"stages": (with_found(stage, points=tuple(points)),), **changes}
    )
    directory.mkdir(parents=True)
    stored(directory, result)
    return directory


def stored(directory: Path, result: RunResult) -> None:
    """Write result.json and a journal that proves it."""
    text = result.model_dump_json(indent=1).encode()
    (directory / "result.json").write_bytes(text)
    (directory / NAME).unlink(missing_ok=True)
    journal = Journal.create(directory / NAME, now=lambda: result.started_at)
    journal.append(Kind.RUN, data={"run_id": result.run_id, "target": result.target.id})
    journal.append(Kind.ENDED, data={RESULT_SHA256: sha256(text).hexdigest()})
    journal.close()
