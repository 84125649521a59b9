"""What a target may do, for the estimates of a plan; a measurement never rests on it."""

from collections.abc import Mapping

from ssdbench.engine.stage import RateHint
from ssdbench.model.target import TargetInfo
from ssdbench.sim.modelfile import embedded_models, load_embedded

ANY = RateHint()
AROUND = (0.5, 2.0)  # of a model's figures: they are for one block size and depth
BYTES_PER_MB = 1e6


def rate_hint(info: TargetInfo) -> RateHint:
    """The range for any drive, or around the figures of an embedded model."""
    name = info.sim_model.split(",")[0]
    if not info.simulated or name not in embedded_models():
        return ANY
    figures = load_embedded(name).simulated
    sequential = _around(figures, "seq_write_mbps")
    return RateHint(
        sequential_bytes_per_s=(
            (sequential[0] * BYTES_PER_MB, sequential[1] * BYTES_PER_MB)
            if sequential
            else ANY.sequential_bytes_per_s
        ),
        random_write_iops=_around(figures, "random_write_iops") or ANY.random_write_iops,
        random_read_iops=_around(figures, "random_read_iops") or ANY.random_read_iops,
        source=f"the figures of {name}",
    )


def _around(figures: Mapping[str, float], name: str) -> tuple[float, float] | None:
    value = figures.get(name)
    return None if value is None else (value * AROUND[0], value * AROUND[1])
