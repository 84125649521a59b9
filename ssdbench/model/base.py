"""Define the base of all models, and report mistakes in a profile with their place."""

from collections.abc import Sequence
from typing import Any

from pydantic import BaseModel, ConfigDict
from pydantic_core import PydanticCustomError


class Model(BaseModel):
    """Base of all models: immutable, and an unknown key is an error."""

    model_config = ConfigDict(frozen=True, extra="forbid", ser_json_inf_nan="constants")


class ProfileModel(Model):
    """Base of the models of a profile: the docstring below each key describes it to users."""

    model_config = ConfigDict(use_attribute_docstrings=True)


Mistake = tuple[tuple[str | int, ...], str]  # path below the model, and the fault


def refuse(mistakes: Sequence[Mistake]) -> None:
    """Raise an error from which the loader makes one diagnostic per mistake, each at its place."""
    if mistakes:
        context: dict[str, Any] = {"mistakes": list(mistakes)}
        raise PydanticCustomError("mistakes", "{mistakes}", context)
