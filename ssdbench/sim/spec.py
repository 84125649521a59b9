"""Parse the description of a simulated drive: `sim:MODEL[,key=value…]`.

MODEL is an embedded model (`sim:x25m-g2-160`) or a model file (`sim:drive.yaml`). The settings can
change any parameter of the core: `sim:x25m-g2-160,capacity=8GiB,op=28%,t_prog=1.3ms,seed=7`. Keys
are the names in the core's table, with or without the unit at their end.

`scale=20` makes a drive with 1/20 of the capacity that behaves like the large one: it has about the
same write amplification, IOPS and latency. Its rate falls after the same number of drive writes,
which takes 1/20 of the time. The ratio of spare area, the relative sizes of buffer and caches, and
the service times are not changed. Superblocks become smaller, so that the drive still has many
superblocks. Garbage collection copies less from smaller superblocks, so the small drive is somewhat
faster; `ssdbench.sim.truth` computes by how much.
"""

import difflib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

from ssdbench.errors import UsageError
from ssdbench.model.target import RESIZED
from ssdbench.sim import truth
from ssdbench.sim.library import FIFO, GREEDY, PAGE, ParamDesc, Params, parameters
from ssdbench.sim.modelfile import ModelFile, embedded_models, load_embedded, load_path
from ssdbench.units import (
    GIB,
    KIB,
    MIB,
    TIB,
    format_capacity,
    format_size,
    parse_duration_ns,
    parse_percent,
    parse_size,
)

MIN_SUPERBLOCKS = 1000
SAME = 0.01  # relative change of a rate that messages still call "unchanged"


def scaled(
    params: Mapping[str, int], capacity_bytes: int, *, keep: frozenset[str] = frozenset()
) -> tuple[dict[str, int], tuple[str, ...]]:
    """Return the parameters for another capacity, and sentences that describe the changes.

    Parameters in `keep` were set by the user and do not change. Raises UsageError if a drive of
    this size cannot behave like the model.
    """
    resized = dict(params)
    full = params["capacity_bytes"]
    unit = max(params["map_unit_bytes"], params["lba_bytes"])
    resized["capacity_bytes"] = capacity_bytes // unit * unit
    if capacity_bytes == full:
        return resized, ()
    notes = []
    if params["ftl"] == PAGE:
        notes += _shares(resized, full, keep)
        notes += _superblocks(resized, keep)
        notes += _usable_spare(resized, params, keep)
    size = f"{RESIZED}{format_capacity(capacity_bytes)} instead of {format_capacity(full)}"
    if capacity_bytes < full:
        size += (
            f": effects that depend on the capacity come {full / capacity_bytes:.3g} times "
            f"sooner; {_rates(params, resized)}"
        )
    return resized, (size, *notes)


def _rates(full: Mapping[str, int], small: Mapping[str, int]) -> str:
    """Compare the random write rates of the small and the whole drive in a sentence."""
    same = "rates and latencies are unchanged"
    if full["ftl"] != PAGE:
        return same
    load = truth.Load(block_bytes=max(4096, full["map_unit_bytes"]))
    rates: list[float] = []
    for one in (full, small):
        # A policy that chooses the best of several random superblocks is almost as good as greedy.
        policy = FIFO if one["gc_policy"] == FIFO else GREEDY
        params = {**one, "gc_policy": policy}
        spare = truth.medium(params).alpha > 1  # the core refuses a drive without spare area
        amplified = truth.write_amplification(params, load) if spare else None
        if amplified is None and rates:
            return (
                "random writes over the whole drive are faster in steady state; "
                "`ssdbench sim truth` simulates how fast"
            )
        if amplified is None:
            return "rates that garbage collection limits are not compared"
        rates.append(min(truth.page_limits(params, load, amplified).values()))
    change = rates[1] / rates[0] - 1
    if abs(change) < SAME:
        return f"{same} within {100 * SAME:.0f} %"
    much = f"{100 * abs(change):.0f} % {'faster' if change > 0 else 'slower'}"
    return f"random writes over the whole drive are {much} in steady state"


def _shares(params: dict[str, int], full: int, keep: frozenset[str]) -> list[str]:
    """Scale caches and write buffer with the capacity; the buffer keeps two programs per die."""
    notes = []
    dies = params["channels"] * params["dies_per_channel"]
    row = max(params["program_unit_bytes"] * params["planes"], params["map_unit_bytes"]) * dies
    for name, floor in (("cache_bytes", 1), ("slc_bytes", 1), ("wbuf_bytes", 2 * row)):
        if name in keep or not params[name]:
            continue
        before = params[name]
        share = before * params["capacity_bytes"] // full
        params[name] = max(share, min(before, floor))
        if params[name] != before:
            notes.append(f"{name} is {format_size(params[name])} instead of {format_size(before)}")
    return notes


def _superblocks(params: dict[str, int], keep: frozenset[str]) -> list[str]:
    """Shorten the erase block and its erase time until the drive has enough superblocks."""
    before = params["erase_block_bytes"]
    smallest = max(params["program_unit_bytes"] * params["planes"], params["map_unit_bytes"])
    if params["slc_bytes"] or params["slc_dynamic_ppm"]:
        smallest *= params["slc_bits"]
    while superblocks(params) < MIN_SUPERBLOCKS and "erase_block_bytes" not in keep:
        half = params["erase_block_bytes"] // smallest // 2 * smallest
        if not half:
            break
        params["t_erase_ns"] = params["t_erase_ns"] * half // params["erase_block_bytes"]
        params["erase_block_bytes"] = half
    if superblocks(params) < MIN_SUPERBLOCKS and "erase_block_bytes" not in keep:
        least = params["capacity_bytes"] * MIN_SUPERBLOCKS // max(1, superblocks(params))
        raise UsageError(
            f"a drive of {format_size(params['capacity_bytes'])} is too small for this model's "
            f"physics: it would have fewer than {MIN_SUPERBLOCKS} superblocks",
            hint=f"give at least capacity={format_size(least)}, or set erase_block yourself",
        )
    if params["erase_block_bytes"] == before:
        return []
    return [
        f"erase blocks are {format_size(params['erase_block_bytes'])} instead of "
        f"{format_size(before)}, with an erase time in proportion, so that the drive has "
        f"{superblocks(params)} superblocks"
    ]


def _usable_spare(
    params: dict[str, int], full: Mapping[str, int], keep: frozenset[str]
) -> list[str]:
    """Raise the over-provisioning so that garbage collection can use the same share of spare.

    A few superblocks are never spare: those that are being filled, and those that garbage
    collection keeps free (the low-water mark). On a scaled drive, these superblocks are a larger
    part of all superblocks.
    """
    if {"op_ppm", "gc_low"} & keep:
        return []
    reserved = 2 * params["gc_low"] + params["gc_streams"] + 1  # half superblocks
    before, now = (
        reserved
        * p["erase_block_bytes"]
        * p["channels"]
        * p["dies_per_channel"]
        * 1_000_000
        // (2 * p["capacity_bytes"])
        for p in (full, params)
    )
    if now <= before:
        return []
    params["op_ppm"] += now - before
    return [
        f"over-provisioning is {params['op_ppm'] / 1e4:.2f} % instead of "
        f"{full['op_ppm'] / 1e4:.2f} %, so that garbage collection can use the same share of spare"
    ]


def superblocks(params: Mapping[str, int]) -> int:
    """Return the number of superblocks; a superblock has one erase block of each die."""
    dies = params["channels"] * params["dies_per_channel"]
    physical = params["capacity_bytes"] * (1_000_000 + params["op_ppm"]) // 1_000_000
    return physical // (params["erase_block_bytes"] * dies)


PREFIX = "sim:"
_UNIT_SUFFIX = re.compile(r"_(bytes|ns|ppm|mbps|mk|mk_per_gb|ppm_per_fill)$")
_BINARY_UNITS = (("TiB", TIB), ("GiB", GIB), ("MiB", MIB), ("KiB", KIB))
_TRUE, _FALSE = ("yes", "on", "true"), ("no", "off", "false")


@dataclass(frozen=True, slots=True)
class SimSpec:
    """The full specification of a simulated drive."""

    model: str
    title: str
    params: Mapping[str, int]  # all parameters of the core, by name
    seed: int
    notes: tuple[str, ...]  # sentences for the report: how the drive differs from its model
    sources: tuple[str, ...]
    text: str  # the target in its standard form: "sim:x25m-g2-160,capacity=8GiB,seed=7"
    full_bytes: int = 0  # capacity of the model, even if this drive is scaled

    @property
    def capacity_bytes(self) -> int:
        """Return the size that the host sees."""
        return self.params["capacity_bytes"]

    def core_params(self) -> Params:
        """Return the parameters as a C structure. Raises UsageError if the core refuses them."""
        params = Params(dict(self.params))
        params.check()
        return params


class ModelCard(ModelFile):
    """An embedded model with its sizes, which lists of models show."""

    capacity_bytes: int  # of the real drive
    simulated_bytes: int  # default capacity of `sim:NAME`


def catalogue() -> list[ModelCard]:
    """Return all embedded models, sorted by name."""
    return [_card(load_embedded(name)) for name in embedded_models()]


def parse(text: str) -> SimSpec:
    """Parse `sim:MODEL[,key=value…]` or `sim:PATH.yaml[,key=value…]`.

    Raises UsageError for an unknown model, an unknown key (with the nearest one), a wrong value, or
    parameters that contradict each other.
    """
    name, *settings = text.removeprefix(PREFIX).split(",")
    model = _model(name.strip())
    wanted = dict(_setting(text, setting) for setting in settings if setting.strip())
    if len(wanted) != len([s for s in settings if s.strip()]):
        raise UsageError(f"{text}: a parameter is given twice")
    scale = wanted.pop("scale", None)
    return of_model(model, wanted, scale)


def value_of(desc: ParamDesc, text: str | int) -> int:
    """Parse the value of a parameter, such as `8GiB`, `1.3ms`, `28%`, `greedy`, `yes`.

    A number without a unit is in the unit of the core's table. Raises UsageError for a wrong value.
    """
    said = str(text).strip()
    if desc.choices:
        return _choice(desc, said)
    if re.fullmatch(r"[0-9]+", said):
        return int(said)
    try:
        match desc.unit:
            case "B":
                return parse_size(said)
            case "ns":
                return parse_duration_ns(said)
            case "ppm":
                return round(parse_percent(said) * 10_000)
            case "MB/s":
                return int(said.removesuffix("MB/s").strip())
            case _:
                return int(said)
    except ValueError as error:
        detail = str(error) if "invalid literal" not in str(error) else f"got {said!r}"
        unit = f" in {desc.unit}" if desc.unit else " without a unit"
        raise UsageError(f"{desc.name} must be a number{unit}: {detail}", hint=desc.doc) from None


@cache
def short_names() -> dict[str, str]:
    """Return the parameter name for each key; a key may omit the unit at the end of the name."""
    names = {_UNIT_SUFFIX.sub("", name): name for name in parameters()}
    return {**names, **{name: name for name in parameters()}}


def param_name(key: str) -> str:
    """Return the parameter name for a key. Raises UsageError, which names the nearest key."""
    name = short_names().get(key)
    if name:
        return name
    near = difflib.get_close_matches(key, [*short_names(), "scale"], n=1, cutoff=0.5)
    raise UsageError(
        f"the simulated drive has no parameter {key!r}"
        + (f"; did you mean {near[0]!r}?" if near else ""),
        hint="`ssdbench sim models --parameters` lists all parameters",
    )


def _model(name: str) -> ModelFile:
    if name.endswith((".yaml", ".yml")):
        return load_path(name)
    if name in embedded_models():
        return load_embedded(name)
    near = difflib.get_close_matches(name, embedded_models(), n=1, cutoff=0.4)
    raise UsageError(
        f"there is no simulated drive {name!r}" + (f"; did you mean {near[0]!r}?" if near else ""),
        hint="`ssdbench sim models` lists all models; `sim:PATH.yaml` reads your own model file",
    )


def _setting(text: str, setting: str) -> tuple[str, int]:
    key, equals, said = (part.strip() for part in setting.partition("="))
    if not equals or not said:
        raise UsageError(f"{text}: a setting looks like key=value, got {setting.strip()!r}")
    if key == "scale":
        if not re.fullmatch(r"[1-9][0-9]*", said):
            raise UsageError(f"{text}: scale is a whole number such as 20, got {said!r}")
        return key, int(said)
    name = param_name(key)
    value = value_of(parameters()[name], said)
    parameters()[name].check(value)
    return name, value


def of_model(model: ModelFile, wanted: dict[str, int], scale: int | None) -> SimSpec:
    """Return the specification of a drive of a model, with the parameters in `wanted` changed.

    Raises UsageError for values that the core refuses.
    """
    if scale is not None and "capacity_bytes" in wanted:
        raise UsageError("capacity and scale both set the size; give one of them")
    base = {name: desc.default for name, desc in parameters().items()}
    base |= _model_params(model)
    full = base["capacity_bytes"]
    capacity = wanted.get("capacity_bytes")
    if capacity is None:
        capacity = full // scale if scale else min(model.simulate_bytes or full, full)
    base |= {name: value for name, value in wanted.items() if name != "capacity_bytes"}
    params, notes = scaled(base, capacity, keep=frozenset(wanted))
    spec = SimSpec(
        model=model.name,
        title=model.title,
        params=params,
        seed=params["seed"],
        notes=notes,
        sources=model.sources,
        text=_canonical(model, params, wanted, scale),
        full_bytes=full,
    )
    spec.core_params()
    return spec


def _model_params(model: ModelFile) -> dict[str, int]:
    params: dict[str, int] = {}
    for key, said in model.params.items():
        name = param_name(key)
        params[name] = value_of(parameters()[name], said)
        parameters()[name].check(params[name])
    return params


def _canonical(
    model: ModelFile, params: Mapping[str, int], wanted: Mapping[str, int], scale: int | None
) -> str:
    parts = [f"scale={scale}"] if scale else []
    parts += [
        f"{name.removesuffix('_bytes')}={_said(parameters()[name], params[name])}"
        for name in sorted(wanted)
    ]
    return ",".join([f"{PREFIX}{model.reference}", *parts])


def _said(desc: ParamDesc, value: int) -> str:
    if desc.choices:
        return desc.choices[value]
    if desc.unit != "B":
        return str(value)
    unit, factor = next((u for u in _BINARY_UNITS if value and value % u[1] == 0), ("", 1))
    return f"{value // factor}{unit}"


def _choice(desc: ParamDesc, said: str) -> int:
    if said in desc.choices:
        return desc.choices.index(said)
    if len(desc.choices) == 2 and said in (*_TRUE, *_FALSE):
        return int(said in _TRUE)
    raise UsageError(f"{desc.name} must be one of {', '.join(desc.choices)}; got {said!r}")


def _card(model: ModelFile) -> ModelCard:
    full = _model_params(model)["capacity_bytes"]
    simulated = min(model.simulate_bytes or full, full)
    return ModelCard(**dict(model), capacity_bytes=full, simulated_bytes=simulated)
