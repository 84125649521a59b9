"""Record kernel tracepoints in an instance of our own, without changing other tracers.

tracefs also works on a locked-down kernel. Such a kernel refuses debugfs, so blktrace does not work
there. The trace buffer is read in binary form. Its text form rounds times to microseconds, but a
request often spends only a microsecond in one layer. The format is in include/linux/ring_buffer.h.
A page begins with time and length. The head of an entry has 5 bits for type or length, and 27 bits
for the time since the previous entry.
"""

import os
import re
import struct
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from ssdbench.errors import HostLacks
from ssdbench.foreign import descriptor_of
from ssdbench.host.sysfs import Sysfs, chosen

_LENGTH = (1 << 20) - 1  # length of a page; the bits above it count lost entries
_HEADER_BYTES = 16
_PADDING, _TIME_EXTEND, _TIME_STAMP = 29, 30, 31
_DELTA_BITS = 27
_FIELD = re.compile(r"field:(.+?)([\w]+)(\[\w*\])?;\s*offset:(\d+);\s*size:(\d+);\s*signed:(\d);")
_CODES = {(1, 0): "B", (1, 1): "b", (2, 0): "H", (2, 1): "h", (4, 0): "I", (4, 1): "i",
          (8, 0): "Q", (8, 1): "q"}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Layout:
    """The offsets of the fields in events of one kind."""

    name: str
    id: int
    fields: Mapping[str, tuple[int, str]]  # offset and struct code of each number


@dataclass(frozen=True, slots=True)
class TraceEvent:
    """One entry of the trace buffer: an event with its time and fields."""

    at_ns: int
    cpu: int
    name: str
    fields: Mapping[str, int]


def layout(text: str) -> Layout:
    """Parse the `format` file of an event. Raises ValueError if the text is not such a file."""
    name, number = re.search(r"^name: (\S+)", text, re.M), re.search(r"^ID: (\d+)", text, re.M)
    if name is None or number is None:
        raise ValueError("the format of an event must begin with its name and its ID")
    fields = {}
    for _, field, array, offset, size, signed in _FIELD.findall(text):
        code = _CODES.get((int(size), int(signed)))
        if code and not array and not field.startswith("common_"):
            fields[field] = (int(offset), f"<{code}")
    return Layout(name[1], int(number[1]), fields)


def decode(page: bytes, layouts: Mapping[int, Layout], cpu: int) -> Iterator[TraceEvent]:
    """Yield the entries of a page, oldest first; skip events of kinds that are not in `layouts`."""
    now_ns, commit = struct.unpack_from("<QQ", page)
    end = min(len(page), _HEADER_BYTES + (commit & _LENGTH))
    place = _HEADER_BYTES
    while place + 4 <= end:
        (head,) = struct.unpack_from("<I", page, place)
        kind, delta = head & 31, head >> 5
        place += 4
        if kind in (_TIME_EXTEND, _TIME_STAMP):
            (high,) = struct.unpack_from("<I", page, place)
            step = (high << _DELTA_BITS) + delta
            now_ns = now_ns + step if kind == _TIME_EXTEND else step
            place += 4
            continue
        now_ns += delta
        if kind == _PADDING:
            if not delta:
                return
            (length,) = struct.unpack_from("<I", page, place)
            place += length
            continue
        if kind:
            body, place = place, place + 4 * kind
        else:
            (length,) = struct.unpack_from("<I", page, place)
            body, place = place + 4, place + length
        found = layouts.get(struct.unpack_from("<H", page, body)[0])
        if found is not None:
            numbers = {
                name: struct.unpack_from(code, page, body + offset)[0]
                for name, (offset, code) in found.fields.items()
            }
            yield TraceEvent(now_ns, cpu, found.name, numbers)


ROOT = "/sys/kernel/tracing"
INSTANCE = f"{ROOT}/instances/ssdbench"
FILE_SYSTEM = "tracefs nodev"  # type and source of the mount
BUFFER_KB = 16384  # size per CPU, for about 200,000 entries; the latest are kept
_PAGE_BYTES = 1 << 16  # bytes per read, more than any page of the buffer


def offered(sysfs: Sysfs) -> bool:
    """Return whether this kernel has tracefs."""
    return "\ttracefs\n" in (sysfs.find("/proc/filesystems") or "") + "\n"


def mounted(sysfs: Sysfs) -> bool:
    """Return whether tracefs is mounted."""
    return sysfs.exists(f"{ROOT}/instances")


def in_use(kernel_name: str, sysfs: Sysfs) -> str:
    """Return the name of a program that already traces, which slows our requests; "" if none."""
    tracer = chosen(sysfs.find(f"{ROOT}/current_tracer") or "nop")
    if tracer != "nop":
        return f"the tracer {tracer} is running"
    if chosen(sysfs.find(f"{ROOT}/events/block/enable") or "0") != "0":
        return "another program traces block events"
    if chosen(sysfs.find(f"/sys/block/{kernel_name}/trace/enable") or "0") != "0":
        return f"blktrace traces {kernel_name}"
    if sysfs.exists(INSTANCE):
        return f"another run has the tracing instance {INSTANCE}"
    return ""


class Tracing:
    """Record events in a tracing instance; the caller creates the instance and removes it."""

    def __init__(self, wanted: Mapping[str, str]) -> None:
        """Enable the events in `wanted`, each with its filter: `block/block_rq_issue`: `dev == 8`.

        Events that this kernel lacks are left out of `events`.
        """
        self._base = Path(INSTANCE)
        self.events = tuple(e for e in wanted if (self._base / "events" / e / "format").exists())
        layouts = [layout((self._base / "events" / e / "format").read_text()) for e in self.events]
        self._layouts: dict[int, Layout] = {one.id: one for one in layouts}
        self._set("tracing_on", "0")
        self._set("trace_clock", "mono")  # the same clock for all CPUs
        self._set("buffer_size_kb", str(BUFFER_KB))
        for event in self.events:
            if wanted[event]:
                self._set(f"events/{event}/filter", wanted[event])
            self._set(f"events/{event}/enable", "1")

    def start(self) -> None:
        """Clear the buffers and start recording."""
        self._set("trace", "")
        self._set("tracing_on", "1")

    def stop(self) -> list[TraceEvent]:
        """Stop recording; return all events that the buffers still hold, in order of time."""
        self._set("tracing_on", "0")
        events: list[TraceEvent] = []
        for place in sorted((self._base / "per_cpu").glob("cpu*")):
            cpu = int(place.name[3:])
            for page in _pages(place / "trace_pipe_raw"):
                events += decode(page, self._layouts, cpu)
        return sorted(events, key=lambda event: event.at_ns)

    def close(self) -> None:
        """Switch all events off, so that the caller can remove the instance."""
        self._set("tracing_on", "0")
        for event in self.events:
            self._set(f"events/{event}/enable", "0")

    def _set(self, name: str, value: str) -> None:
        try:
            with descriptor_of(self._base / name, os.O_WRONLY | os.O_TRUNC) as descriptor:
                if value:
                    os.write(descriptor, value.encode())
        except OSError as error:
            raise HostLacks(f"{INSTANCE}/{name} cannot be set: {error.strerror}") from error


def _pages(pipe: Path) -> list[bytes]:
    """Return the pages of one CPU's trace buffer; each read returns a page and never waits."""
    pages = []
    with descriptor_of(pipe, os.O_RDONLY | os.O_NONBLOCK) as descriptor, suppress(BlockingIOError):
        while page := os.read(descriptor, _PAGE_BYTES):
            pages.append(page)
    return pages
