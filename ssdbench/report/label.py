"""The label that every line about a simulated drive carries."""

from ssdbench.model.target import TargetInfo


def simulated_label(target: TargetInfo) -> str:
    """`SIMULATED: x25m-g2-160, seed 7`; empty for a target that is real."""
    if not target.simulated:
        return ""
    model = target.sim_model or target.model or target.name
    seed = "unknown" if target.sim_seed is None else str(target.sim_seed)
    return f"SIMULATED: {model}, seed {seed}"
