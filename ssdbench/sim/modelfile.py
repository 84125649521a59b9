"""Read model files: a drive's parameters, its published figures and their sources."""

import os
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from pydantic import Field, ValidationError
from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError

from ssdbench.errors import Diagnostic, ProfileError, UsageError
from ssdbench.model.base import Model

MODELS = Path(__file__).parent / "models"


class ModelFile(Model):
    """The content of a model file; parameters are still text, such as `1.3ms`."""

    name: str
    reference: str  # the text after `sim:` in a target
    drive: str = ""  # the model string of the real drive, if the model was fitted to it
    title: str = Field(min_length=1)
    sources: tuple[str, ...] = Field(min_length=1)
    figures: Mapping[str, float] = {}  # published figures of the real drive
    simulated: Mapping[str, float] = {}  # the model's values of `figures`, measured with the core
    differences: tuple[str, ...] = ()  # where the model differs from the real drive, and why
    simulate_bytes: int | None = None  # default capacity; None: the real drive's
    params: Mapping[str, int | str]


@cache
def embedded_models() -> tuple[str, ...]:
    """Return the names of the models that are part of ssdbench."""
    return tuple(sorted(path.stem for path in MODELS.glob("*.yaml")))


@cache
def load_embedded(name: str) -> ModelFile:
    """Read a model that is part of ssdbench."""
    path = MODELS / f"{name}.yaml"
    return read_model(path.read_text(), file=str(path), name=name, reference=name)


def load_path(path: str) -> ModelFile:
    """Read a model file of the user. Raises UsageError, ProfileError with line and column."""
    try:
        text = Path(path).read_text()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not text"
        raise UsageError(f"the model file {path} cannot be read: {reason}") from error
    return read_model(text, file=path, name=Path(path).stem, reference=path)


def fitted_to(drive: str) -> ModelFile | None:
    """Return the user's model of a real drive, by the drive's model string, or None.

    Searches `*.yaml` in `~/.config/ssdbench/models`, then in `/etc/ssdbench/models`. Raises
    UsageError or ProfileError if a file there cannot be read.
    """
    base = os.environ.get("XDG_CONFIG_HOME") or f"{os.environ.get('HOME', '/')}/.config"
    directories = (Path(base) / "ssdbench/models", Path("/etc/ssdbench/models"))
    files = (path for one in directories for path in sorted(one.glob("*.yaml")))
    models = (load_path(str(path)) for path in files)
    return next((model for model in models if drive and model.drive == drive), None)


def read_model(text: str, *, file: str, name: str, reference: str) -> ModelFile:
    """Parse the text of a model file. Raises ProfileError with all mistakes."""
    try:
        data = YAML(typ="rt").load(text)
    except MarkedYAMLError as error:
        mark = error.problem_mark
        line, column = (mark.line + 1, mark.column + 1) if mark else (1, 1)
        said = Diagnostic(file, line, column, str(error.problem or "this is not YAML"))
        raise ProfileError([said]) from error
    if not isinstance(data, Mapping):
        raise ProfileError([Diagnostic(file, 1, 1, "a model file is a mapping with a title")])
    try:
        return ModelFile.model_validate({**data, "name": name, "reference": reference})
    except ValidationError as error:
        raise ProfileError(
            [
                Diagnostic(file, *_place(data, mistake["loc"]), _said(mistake))
                for mistake in error.errors()
            ],
            hint="for examples, see the models in ssdbench/sim/models",
        ) from error


def _said(found: Any) -> str:
    where = ".".join(str(part) for part in found["loc"])
    return f"{where}: {found['msg']}" if where else str(found["msg"])


def _place(data: Any, location: tuple[int | str, ...]) -> tuple[int, int]:
    """Return line and column of a mistake; if the key is missing, of the nearest key above."""
    line, column = 1, 1
    for part in location:
        try:
            line, column = (place + 1 for place in data.lc.data[part][:2])
            data = data[part]
        except (AttributeError, KeyError, IndexError, TypeError):
            break
    return line, column
