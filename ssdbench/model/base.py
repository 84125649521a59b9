"""Define the base class of all models, and report mistakes in a profile with their place."""

from collections.abc import Sequence
from typing import Any

from pydantic import BaseModel, ConfigDict
from pydantic_core import PydanticCustomError


class Model(BaseModel):
    """Define the base of all models: an object is immutable, and an unknown key is an error."""

    model_config = ConfigDict(frozen=True, extra="forbid", ser_json_inf_nan="constants")


class ProfileModel(Model):
    """Define the base of profile models: the docstring below a key describes the key to users."""

    model_config = ConfigDict(use_attribute_docstrings=True)


Mistake = tuple[tuple[str | int, ...], str]  # path below the model, and the fault


def refuse(mistakes: Sequence[Mistake]) -> None:
    """Raise an error, from which the profile loader makes one message for each mistake."""
    if mistakes:
        context: dict[str, Any] = {"mistakes": list(mistakes)}
        raise PydanticCustomError("mistakes", "{mistakes}", context)
