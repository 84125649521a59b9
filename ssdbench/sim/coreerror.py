"""The core's errors, and what each means."""

from enum import IntEnum


class CoreError(IntEnum):
    """enum ssdb_error."""

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
        """What went wrong, for people."""
        return _SENTENCES.get(self, "the simulated drive is not usable")


_SENTENCES = {
    CoreError.RANGE: "the request reaches beyond the end of the drive",
    CoreError.ALIGN: "offset and size must be multiples of the logical block",
    CoreError.PARAM: "a parameter is out of its limits",
    CoreError.MEMORY: "the state is truncated",
    CoreError.VERSION: "the state is of another version, or none at all",
    CoreError.TORN: "the state's last user died inside a request",
    CoreError.NO_SPACE: "the drive has no spare block left",
    CoreError.MEDIUM: "the drive reports a media error",
    CoreError.OPERATION: "the drive does not know this operation",
    CoreError.TIME: "the time of the request lies before that of the last one",
    CoreError.SIZE: "the request is larger than the drive accepts",
}
