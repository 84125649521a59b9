"""The models of simulated drives: published figures, ours, sources and differences."""

from docs.siteparts.markdown import code, prose, table
from ssdbench.sim.library import ParamDesc, parameters
from ssdbench.sim.spec import ModelCard, catalogue
from ssdbench.units import format_capacity


def page() -> str:
    """A section for each model, then every parameter."""
    sections = [_section(card) for card in catalogue()]
    rows = [_parameter(one) for one in parameters().values()]
    head = ("parameter", "unit", "default", "least", "most", "meaning")
    told = "What `sim:MODEL,key=value` and a model file of your own may set."
    return "\n\n".join([*sections, f"## Parameters\n\n{told}\n\n{table(head, rows)}"])


def _section(card: ModelCard) -> str:
    size = format_capacity(card.capacity_bytes)
    simulated = format_capacity(card.simulated_bytes)
    parts = [f"## {card.name}", f"{prose(card.title)}. {size}; `sim:{card.name}` has {simulated}."]
    rows = [
        (code(name), _figure(published), _figure(card.simulated.get(name)))
        for name, published in card.figures.items()
    ]
    if rows:
        parts.append(table(("figure", "published", "the model gives"), rows))
    parts.append("Sources:\n\n" + "".join(f"- {prose(source)}\n" for source in card.sources))
    if card.differences:
        told = "".join(f"- {prose(difference)}\n" for difference in card.differences)
        parts.append("Where they differ, and which values are fitted or assumed:\n\n" + told)
    return "\n\n".join(parts)


def _figure(value: float | None) -> str:
    return "" if value is None else f"{value:,.12g}"


def _parameter(one: ParamDesc) -> tuple[str, ...]:
    if one.choices:
        chosen = ", ".join(map(code, one.choices))
        return code(one.name), "", code(one.choices[one.default]), chosen, "", prose(one.doc)
    limits = (f"{number:,}" for number in (one.default, one.minimum, one.maximum))
    return code(one.name), one.unit, *limits, prose(one.doc)
