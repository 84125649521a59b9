"""Define the base class of all models, and report mistakes in a profile with their place."""

import ast
import inspect
import sys
from collections.abc import Iterator, Sequence
from functools import cache
from itertools import pairwise
from typing import Any, Self

from pydantic import BaseModel, ConfigDict, model_validator
from pydantic_core import PydanticCustomError


class Model(BaseModel):
    """Define the base of all models: an object is immutable, and an unknown key is an error."""

    model_config = ConfigDict(frozen=True, extra="forbid", ser_json_inf_nan="constants")


Mistake = tuple[tuple[str | int, ...], str]  # path below the model, and the fault


class ProfileModel(Model):
    """Define the base of profile models: the docstring below a key describes the key to users."""

    def mistakes(self) -> Iterator[Mistake]:
        """Yield each mistake that single values do not show; a model with a mistake is refused."""
        yield from ()

    @model_validator(mode="after")
    def _without_mistakes(self) -> Self:
        refuse([*self.mistakes()])
        return self


def key_texts(model: type[BaseModel]) -> dict[str, str]:
    """Return the docstring below each key of a profile model, by the name of its field.

    pydantic can read the docstrings too, but it does so whenever a class is made. Each command
    would take longer to start, and only schemas need the docstrings.
    """
    texts: dict[str, str] = {}
    for one in reversed(model.__mro__):
        if issubclass(one, ProfileModel):
            texts |= _attributes(one.__module__).get(one.__name__, {})
    return texts


@cache
def _attributes(module: str) -> dict[str, dict[str, str]]:
    """Return the docstring below each attribute of a module's classes; "" if there is none."""
    tree = ast.parse(inspect.getsource(sys.modules[module]))
    return {
        node.name: dict(_texts_in(node)) for node in tree.body if isinstance(node, ast.ClassDef)
    }


def _texts_in(node: ast.ClassDef) -> Iterator[tuple[str, str]]:
    for one, below in pairwise([*node.body, ast.Pass()]):
        if isinstance(one, ast.AnnAssign) and isinstance(one.target, ast.Name):
            constant = below.value if isinstance(below, ast.Expr) else None
            text = constant.value if isinstance(constant, ast.Constant) else ""
            yield one.target.id, inspect.cleandoc(text) if isinstance(text, str) else ""


def refuse(mistakes: Sequence[Mistake]) -> None:
    """Raise an error, from which the profile loader makes one message for each mistake."""
    if mistakes:
        context: dict[str, Any] = {"mistakes": list(mistakes)}
        raise PydanticCustomError("mistakes", "{mistakes}", context)
