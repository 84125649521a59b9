"""The base of every model that is read from or written to disk."""

from pydantic import BaseModel, ConfigDict


class Model(BaseModel):
    """Immutable, and a misspelt key is an error."""

    model_config = ConfigDict(frozen=True, extra="forbid", ser_json_inf_nan="constants")
