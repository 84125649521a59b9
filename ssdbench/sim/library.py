"""Load the shared library of the simulated drive, with its parameters, counters and errors.

A table in C (`kmod/ftl/ssdb_params.h`) defines every parameter with unit, limits and description.
Python, configfs and the model files use this table of parameters. A wheel contains the compiled
library; in a clone of the repository it must be built.
"""

import ctypes
import os
import re
from ctypes import POINTER, c_char_p, c_int, c_uint32, c_uint64, c_void_p
from dataclasses import dataclass
from enum import IntEnum
from functools import cache
from pathlib import Path

from ssdbench.errors import HostLacks, UsageError

BIN = Path(__file__).parent / "bin"


def native_file(name: str) -> Path:
    """Return the path of a library or a server: `libssdb_drive.so`, `ssdb-nbd`, `ssdb-ublk`.

    Raises HostLacks if this file has not been built.
    """
    path = BIN / name
    if not path.is_file():
        raise HostLacks(
            f"{name}, a part of the simulated drive, has not been built",
            hint="build it with `make -C ssdbench/sim/native`, or install ssdbench from its wheel",
        )
    return path


def preloadable(name: str) -> str:
    """Return the value of LD_PRELOAD that makes a program that we start load a library.

    In LD_PRELOAD, a space or colon would end the path (ld.so(8)). If the path contains one, the
    value names an open descriptor of this process instead. Raises HostLacks if the library has not
    been built.
    """
    path = native_file(name)
    return _descriptor_path(path, os.getpid()) if re.search(r"[\s:]", str(path)) else str(path)


@cache
def _descriptor_path(path: Path, pid: int) -> str:
    """Open a file for as long as this process runs; return the path of its descriptor in /proc.

    After a fork, the new process opens the file again.
    """
    return f"/proc/{pid}/fd/{os.open(path, os.O_RDONLY | os.O_CLOEXEC)}"


# Numbers that the core's table gives to named choices; a test compares them with the table.
PAGE, BLOCKLOG, DIRECT = 0, 1, 2  # ftl
GREEDY, FIFO = 0, 1  # gc_policy


class _ParamDesc(ctypes.Structure):
    _fields_ = (
        ("name", c_char_p),
        ("unit", c_char_p),
        ("doc", c_char_p),
        ("min", c_uint64),
        ("max", c_uint64),
        ("default", c_uint64),
        ("offset", c_uint32),
        ("size", c_uint32),
        ("choices", POINTER(c_char_p)),
    )


_SIGNATURES: dict[str, tuple[object, list[object]]] = {
    "ssdb_param_count": (c_uint32, []),
    "ssdb_param_desc": (POINTER(_ParamDesc), [c_uint32]),
    "ssdb_params_bytes": (c_uint64, []),
    "ssdb_params_default": (None, [c_void_p]),
    "ssdb_param_set": (c_int, [c_void_p, c_char_p, c_uint64]),
    "ssdb_param_get": (c_int, [c_void_p, c_char_p, POINTER(c_uint64)]),
    "ssdb_params_check": (c_int, [c_void_p, POINTER(c_char_p)]),
    "ssdb_state_bytes": (c_uint64, [c_void_p]),
    "ssdb_init": (c_int, [c_void_p, c_uint64, c_void_p]),
    "ssdb_attach": (c_int, [c_void_p, c_uint64]),
    "ssdb_check": (c_int, [c_void_p]),
    "ssdb_repair": (c_int, [c_void_p, c_uint64]),
    "ssdb_state_params": (c_void_p, [c_void_p]),
    "ssdb_capacity_bytes": (c_uint64, [c_void_p]),
    "ssdb_lba_bytes": (c_uint32, [c_void_p]),
    "ssdb_max_request_bytes": (c_uint64, [c_void_p]),
    "ssdb_now_ns": (c_uint64, [c_void_p]),
    "ssdb_submit": (None, [c_void_p, c_uint64, c_void_p, c_void_p]),
    "ssdb_idle": (None, [c_void_p, c_uint64]),
    "ssdb_counter_count": (c_uint32, []),
    "ssdb_counter_name": (c_char_p, [c_uint32]),
    "ssdb_counter": (c_uint64, [c_void_p, c_uint32]),
    "ssdb_run": (c_int, [c_void_p, c_void_p, c_void_p]),
    "ssdb_job_bytes": (c_uint64, []),
    "ssdb_result_bytes": (c_uint64, []),
}


@cache
def library() -> ctypes.CDLL:
    """Load the library of the simulated drive once. Raises HostLacks if it has not been built."""
    try:
        loaded = ctypes.CDLL(str(native_file("libssdb_drive.so")))
    except OSError as error:
        raise HostLacks(
            f"the simulated drive's library cannot be loaded: {error}",
            hint="build it again with `make -C ssdbench/sim/native`",
        ) from error
    for name, (result, arguments) in _SIGNATURES.items():
        function = getattr(loaded, name)
        function.restype = result
        function.argtypes = arguments
    return loaded


@dataclass(frozen=True, slots=True)
class ParamDesc:
    """A parameter of the simulated drive: its meaning, limits and default."""

    name: str  # such as "t_prog_ns"
    unit: str  # "B", "ns", "ppm", "MB/s" and the like; empty for counts and choices
    doc: str
    minimum: int
    maximum: int
    default: int
    choices: tuple[str, ...]

    def check(self, value: int) -> None:
        """Raise UsageError if a value is outside the limits."""
        if not self.minimum <= value <= self.maximum:
            unit = f" {self.unit}" if self.unit else ""
            raise UsageError(
                f"{self.name} must be from {self.minimum} to {self.maximum}{unit}, got {value}",
                hint=self.doc,
            )


def _choices(pointer: "ctypes._Pointer[c_char_p]") -> tuple[str, ...]:
    choices: list[str] = []
    while bool(pointer) and (name := pointer[len(choices)]) is not None:
        choices.append(bytes(name).decode())
    return tuple(choices)


@cache
def parameters() -> dict[str, ParamDesc]:
    """Return all parameters of a simulated drive by name, in the order of the core's table."""
    core = library()
    descriptions = [core.ssdb_param_desc(i).contents for i in range(core.ssdb_param_count())]
    return {
        desc.name.decode(): ParamDesc(
            name=desc.name.decode(),
            unit=desc.unit.decode(),
            doc=desc.doc.decode(),
            minimum=desc.min,
            maximum=desc.max,
            default=desc.default,
            choices=_choices(desc.choices),
        )
        for desc in descriptions
    }


@cache
def counter_names() -> tuple[str, ...]:
    """Return the names of the counters of a simulated drive, in the order of the core."""
    core = library()
    return tuple(core.ssdb_counter_name(i).decode() for i in range(core.ssdb_counter_count()))


class Params:
    """The core's structure of parameters; parameters that are not given have their default."""

    def __init__(self, values: dict[str, int]) -> None:
        core = library()
        self._memory = ctypes.create_string_buffer(core.ssdb_params_bytes())
        core.ssdb_params_default(self._memory)
        for name, value in values.items():
            if name not in parameters():
                raise UsageError(f"the simulated drive has no parameter {name!r}")
            parameters()[name].check(value)
            core.ssdb_param_set(self._memory, name.encode(), value)

    @property
    def address(self) -> int:
        """Return the address of the structure, for calls into the core."""
        return ctypes.addressof(self._memory)

    def check(self) -> None:
        """Raise UsageError if the core refuses this combination of parameters."""
        why = c_char_p()
        if library().ssdb_params_check(self._memory, ctypes.byref(why)):
            said = (why.value or b"the parameters are wrong").decode()
            raise UsageError(f"these parameters do not make a drive: {said}")

    def state_bytes(self) -> int:
        """Return the size in bytes of the state of a drive with these parameters."""
        return int(library().ssdb_state_bytes(self._memory))


def params_at(address: int) -> dict[str, int]:
    """Return all values in the parameter structure at an address."""
    value = c_uint64()
    params: dict[str, int] = {}
    for name in parameters():
        library().ssdb_param_get(address, name.encode(), ctypes.byref(value))
        params[name] = value.value
    return params


class CoreError(IntEnum):
    """The error codes of the core; the same as enum ssdb_error in C."""

    OK = 0
    RANGE = 1
    ALIGN = 2
    PARAM = 3
    MEMORY = 4
    VERSION = 5
    TORN = 6
    NO_SPACE = 7
    MEDIUM = 8
    OPERATION = 9
    TIME = 10
    SIZE = 11

    def sentence(self) -> str:
        """Say to a user what this error means."""
        return _SENTENCES.get(self, "the simulated drive cannot be used")


_SENTENCES = {
    CoreError.RANGE: "the request reaches beyond the end of the drive",
    CoreError.ALIGN: "offset and size must be multiples of the logical block",
    CoreError.PARAM: "a parameter is outside its limits",
    CoreError.MEMORY: "the state is truncated",
    CoreError.VERSION: "the file is from another version, or is not a state file",
    CoreError.TORN: "the last program died in the middle of a request",
    CoreError.NO_SPACE: "the drive has no spare block left",
    CoreError.MEDIUM: "the drive reports a media error",
    CoreError.OPERATION: "the drive does not know this operation",
    CoreError.TIME: "the time of the request is before the time of the last request",
    CoreError.SIZE: "the request is larger than the drive accepts",
}
