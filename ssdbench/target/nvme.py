"""Decode NVMe pages, that is, structures of NVM Express 2.0 and OCP, into facts; no I/O."""

from collections.abc import Mapping
from dataclasses import dataclass

from ssdbench.host import sensors
from ssdbench.host.nvme import MONITOR_BYTES, MONITOR_GUID
from ssdbench.model.result import FlashWritten
from ssdbench.model.target import LbaFormat
from ssdbench.units import format_capacity

CONTROLLER, NAMESPACE = "nvme identify controller", "nvme identify namespace"
DESCRIPTORS, SIBLINGS = "nvme namespace descriptors", "nvme active namespaces"
ALLOCATED, ATTACHED = "nvme allocated namespaces", "nvme attached controllers"
SMART, OCP, SANITIZE = "nvme smart log", "nvme ocp c0h log", "nvme sanitize log"
POWER, CACHE, TRANSITIONS, MEMORY = (
    "nvme feature power", "nvme feature write cache", "nvme feature apst", "nvme feature hmb",
)  # fmt: skip
PLACEMENT = "nvme feature fdp"
# More logs (number and size) of drives that have OCP's log C0h. Source: OCP Datacenter NVMe SSD
# Specification 2.5, section 4.8.
RECOVERY, ACTIVATIONS = "nvme ocp c1h error recovery", "nvme ocp c2h firmware activation"
MONITOR, UNSUPPORTED = "nvme ocp c3h latency monitor", "nvme ocp c5h unsupported requirements"
OCP_LOGS = {
    RECOVERY: (0xC1, 512),
    ACTIVATIONS: (0xC2, 4096),
    MONITOR: (0xC3, 512),
    "nvme ocp c4h capabilities": (0xC4, 4096),
    UNSUPPORTED: (0xC5, 4096),
}
_GUIDS = {  # GUIDs at the end of each log, from nvme-cli (plugins/ocp)
    RECOVERY: bytes.fromhex("44d93121fe3034aeab4dfd3dba83195a"),
    ACTIVATIONS: bytes.fromhex("6d799a76b4daf6a3e24db28aacf31cd1"),
    MONITOR: MONITOR_GUID,
    UNSUPPORTED: bytes.fromhex("2f729c0e99232cbb634832d0b798bbc7"),
}
POWER_LOG = "nvme power measurement log"
ERRORS, FIRMWARE = "nvme error log", "nvme firmware slot log"
RESERVATION, SECURITY = "nvme reservation report", "tcg level 0 discovery"

# GUID in log C0h, bytes 511 to 496 (OCP Datacenter NVMe SSD Specification).
OCP_GUID = bytes.fromhex("c5af1028eabff2a49c4f6f7cc914d5af")
THRESHOLD_MS, BUCKETS = 5, 4  # unit of the thresholds at which buckets begin; 0 means 1 unit
HEALTH_LOG, HEALTH_BYTES = 0x02, 512
OCP_LOG, OCP_BYTES = 0xC0, 512
DATA_UNIT_BYTES = 512_000
# Power fields of the health log, and log 25h, of NVM Express 2.3. Source: libnvme
# (nvme-types-base.h).
_ENERGY, _INTERVAL_POWER = 232, 240  # offsets: watt-hours, rounded up (8 bytes); power (4 bytes)
POWER_LOG_ID, POWER_LOG_BYTES = 0x25, 4096
_POWER_SCALES = {1: 0.0001, 2: 0.01}  # W, for bits 17:16 of a power; 0: unused


@dataclass(frozen=True, slots=True)
class Controller:
    """Hold the fields of the identify controller structure that ssdbench uses."""

    serial: str
    model: str
    firmware: str
    shared_subsystem: bool  # the subsystem may have several controllers
    formats_all: bool  # a format changes every namespace
    erases_all: bool  # a secure erase during format changes every namespace
    can_format: bool
    can_crypto_erase: bool
    sanitizes: frozenset[str]  # "crypto", "block", "overwrite"
    total_bytes: int
    unallocated_bytes: int
    volatile_cache: bool
    can_reserve: bool
    security: bool
    memory_wanted_bytes: int
    power_states: tuple[str, ...]
    apst: bool
    fdp: bool
    atomic_blocks: int  # AWUPF: written whole or not at all, also if power is lost
    measures_power: bool


@dataclass(frozen=True, slots=True)
class Namespace:
    """Hold the fields of the identify namespace structure that ssdbench uses."""

    size_blocks: int
    used_blocks: int
    format_index: int
    extended_metadata: bool
    protection: int  # type 0 (none) to 3
    protection_first: bool
    shared: bool  # several controllers may be attached to it
    reservable: bool
    write_protected: bool
    endurance_group: int  # 0: without an endurance group
    formats: tuple[tuple[int, int], ...]  # (data bytes, metadata bytes)
    nguid: str
    eui64: str

    @property
    def format(self) -> tuple[int, int]:
        """Return the data and metadata bytes per block of the LBA format in use."""
        return self.formats[self.format_index]


def number(page: bytes, offset: int, size: int) -> int:
    """Return a little-endian number at an offset of a page; missing bytes count as 0."""
    return int.from_bytes(page[offset : offset + size], "little")


def text(page: bytes, offset: int, size: int) -> str:
    """Return the text in an ASCII field of a page, without its padding."""
    return page[offset : offset + size].decode("ascii", "replace").strip(" \0")


def controller(page: bytes) -> Controller:
    """Decode the identify controller structure (CNS 01h); missing bytes are 0."""
    page = page.ljust(4096, b"\0")
    oacs, fna, sanicap = number(page, 256, 2), page[524], number(page, 328, 4)
    named = ((1, "crypto"), (2, "block"), (4, "overwrite"))
    return Controller(
        serial=text(page, 4, 20),
        model=text(page, 24, 40),
        firmware=text(page, 64, 8),
        shared_subsystem=bool(page[76] & 0b11),
        formats_all=bool(fna & 1),
        erases_all=bool(fna & 2),
        can_format=bool(oacs & 2),
        can_crypto_erase=bool(fna & 4),
        sanitizes=frozenset(name for bit, name in named if sanicap & bit),
        total_bytes=number(page, 280, 16),
        unallocated_bytes=number(page, 296, 16),
        volatile_cache=bool(page[525] & 1),
        can_reserve=bool(number(page, 520, 2) & 1 << 5),
        security=bool(oacs & 1),
        memory_wanted_bytes=number(page, 272, 4) * 4096,
        power_states=tuple(_power_state(page, state) for state in range(page[263] + 1)),
        apst=bool(page[265] & 1),
        fdp=bool(number(page, 96, 4) & 1 << 19),
        atomic_blocks=number(page, 528, 2) + 1,
        measures_power=bool(number(page, 96, 4) & 1 << 21),
    )


def _power_state(page: bytes, state: int) -> str:
    at = 2048 + 32 * state
    flags = page[at + 3]
    watts = number(page, at, 2) * (0.0001 if flags & 1 else 0.01)
    return f"{watts:g} W{' (not operational)' if flags & 2 else ''}"


def namespace(page: bytes) -> Namespace:
    """Decode the identify namespace structure (CNS 00h); missing bytes are 0."""
    page = page.ljust(4096, b"\0")
    flbas = page[26]
    formats = tuple(
        (1 << page[128 + 4 * index + 2], number(page, 128 + 4 * index, 2))
        for index in range(page[25] + 1)
    )
    return Namespace(
        size_blocks=number(page, 0, 8),
        used_blocks=number(page, 16, 8),
        format_index=min((flbas & 15) | (flbas >> 1 & 0x30), len(formats) - 1),
        extended_metadata=bool(flbas & 16),
        protection=page[29] & 7,
        protection_first=bool(page[29] & 8),
        shared=bool(page[30] & 1),
        reservable=bool(page[31]),
        write_protected=bool(page[99] & 1),
        endurance_group=number(page, 102, 2),
        formats=formats,
        nguid=_identifier(page[104:120]),
        eui64=_identifier(page[120:128]),
    )


def lba_formats(pages: Mapping[str, bytes]) -> tuple[LbaFormat | None, tuple[str, ...]]:
    """Return the LBA format in use, and the usable formats, such as `4096+0`.

    These are the bytes of data and of metadata per block. The results are None and an empty tuple
    for a drive that is not NVMe.
    """
    if NAMESPACE not in pages:
        return None, ()
    said = namespace(pages[NAMESPACE])
    data, metadata = said.format
    used = LbaFormat(data=data, metadata=metadata, protection=said.protection)
    usable = (f"{data}+{metadata}" for data, metadata in said.formats if data > 1)
    return used, tuple(dict.fromkeys(usable))


_WRITE_SIZES = {"NPWG": 64, "NPWA": 66, "NOWS": 72}  # offsets of numbers of blocks, less one


def write_sizes(pages: Mapping[str, bytes]) -> dict[str, int]:
    """Return the write sizes that a namespace recommends, in bytes, by their names.

    The sizes are granularity, alignment and optimal size, which are valid only if bit 4 of NSFEAT
    is set, and the optimal boundary (NVM Express 1.4, figure 247).
    """
    page = pages.get(NAMESPACE, b"").ljust(4096, b"\0")
    block, _ = namespace(page).format
    sizes = {"NOIOB": number(page, 46, 2)}
    if page[24] & 1 << 4:
        sizes |= {name: number(page, at, 2) + 1 for name, at in _WRITE_SIZES.items()}
    return {name: count * block for name, count in sizes.items() if count}


def namespaces(page: bytes) -> list[int]:
    """Return the namespace ids in a list of active or allocated ones (CNS 02h, 10h)."""
    ids = (number(page, at, 4) for at in range(0, len(page), 4))
    return [nsid for nsid in ids if nsid]


def controllers(page: bytes) -> list[int]:
    """Return the controller ids in a controller list (CNS 12h)."""
    return [number(page, 2 + 2 * index, 2) for index in range(number(page, 0, 2))]


def sanitize_state(page: bytes) -> tuple[str, float]:
    """Return the last sanitize's state and finished share, from the sanitize log."""
    words = ("never", "completed", "in progress", "failed", "completed without deallocation")
    status = number(page, 2, 2) & 7
    word = words[status] if status < len(words) else f"status {status}"
    return word, number(page, 0, 2) / 65536 if word == "in progress" else 1.0


def reserved_by(page: bytes) -> str:
    """Describe the reservation in an extended reservation report; "" without a reservation."""
    kind = page[4] if len(page) > 4 else 0
    holders = number(page, 5, 2)
    return f"a reservation of type {kind} ({holders} hosts registered)" if kind else ""


def opal_locked(page: bytes) -> bool:
    """Tell whether a TCG level 0 discovery shows that the drive is locked (locking is enabled)."""
    at, end = 48, min(len(page), 4 + int.from_bytes(page[:4], "big"))
    while at + 4 <= end:
        code, length = int.from_bytes(page[at : at + 2], "big"), page[at + 3]
        if code == 0x0002 and at + 4 < len(page):
            return page[at + 4] & 0b110 == 0b110  # bits: locking is enabled, drive is locked
        at += 4 + length
    return False


def facts(pages: Mapping[str, bytes]) -> dict[str, str]:
    """Return the facts in a drive's NVMe pages, for the report."""
    told: dict[str, str] = {}
    if CONTROLLER in pages:
        told |= _controller_facts(controller(pages[CONTROLLER]))
    if NAMESPACE in pages:
        said = namespace(pages[NAMESPACE])
        data, metadata = said.format
        first = " in the first bytes" if said.protection_first else ""
        told |= {
            "LBA format": f"{said.format_index}: {data} bytes, {metadata} bytes of metadata",
            "LBA formats": ", ".join(f"{d}+{m}" for d, m in said.formats),
            "protection": f"type {said.protection}{first}" if said.protection else "none",
            "namespace blocks": f"{said.size_blocks}, {said.used_blocks} in use",
            "namespace shared": "yes" if said.shared else "no",
            "namespace write-protected": "yes" if said.write_protected else "no",
        }
    if SIBLINGS in pages:
        told["namespaces of the controller"] = _listed(namespaces(pages[SIBLINGS]))
    if ALLOCATED in pages:
        told["namespaces of the subsystem"] = _listed(namespaces(pages[ALLOCATED]))
    if ATTACHED in pages:
        told["attached controllers"] = _listed(controllers(pages[ATTACHED]))
    if SMART in pages:
        told |= smart_facts(pages[SMART])
    if OCP in pages:
        told |= ocp_facts(pages[OCP])
    told |= _ocp_log_facts({name: page for name, page in pages.items() if _is_known(name, page)})
    if POWER_LOG in pages:
        told |= power_facts(pages[POWER_LOG])
    if SANITIZE in pages:
        told["last sanitize"] = sanitize_state(pages[SANITIZE])[0]
    return told | _feature_facts(pages)


def _controller_facts(said: Controller) -> dict[str, str]:
    told = {
        "power states": ", ".join(said.power_states),
        "volatile write cache": "present" if said.volatile_cache else "absent",
        "APST": "supported" if said.apst else "not supported",
        "flexible data placement": "supported" if said.fdp else "not supported",
        "sanitize": _listed(sorted(said.sanitizes)) or "not supported",
    }
    if said.total_bytes:
        told["NVM capacity"] = format_capacity(said.total_bytes)
        told["unallocated NVM capacity"] = format_capacity(said.unallocated_bytes)
    if said.atomic_blocks > 1:
        told["atomic writes"] = f"up to {said.atomic_blocks:,} blocks, also if power is lost"
    if said.memory_wanted_bytes:
        told["host memory buffer wanted"] = format_capacity(said.memory_wanted_bytes)
    return told


def company(page: bytes) -> int:
    """Return the company's number (OUI) in an identify controller page; 0 if it is missing.

    The least significant byte comes first (NVM Express 2.0, figure 275).
    """
    return number(page, 73, 3)


def power_cycles(page: bytes) -> int:
    """Return how often a drive was switched on, from its health log; 0 if not reported."""
    return sensors.counter(page, 112, 16) or 0


def data_written_bytes(page: bytes) -> int | None:
    """Return all bytes that hosts ever wrote, from the health log; None for a blank page."""
    units = None if sensors.is_blank(page) else sensors.counter(page, 48, 16)
    return None if units is None else units * DATA_UNIT_BYTES


def flash_written(health: bytes, ocp: bytes) -> FlashWritten | None:
    """Return all bytes ever written by hosts and to flash; None if `ocp` is not OCP's page.

    OCP counts Physical Media Units Written in bytes, user data and metadata together.
    """
    if len(health) < HEALTH_BYTES or not is_ocp(ocp):
        return None
    host_bytes, media_bytes = data_written_bytes(health), sensors.counter(ocp, 0, 16)
    if host_bytes is None or media_bytes is None:
        return None
    return FlashWritten(host_bytes=host_bytes, media_bytes=media_bytes)


_THROTTLING = {  # offsets and sizes in the health log, NVM Express 2.0, 5.16.1.3
    "minutes above the warning temperature": (192, 4),
    "minutes above the critical temperature": (196, 4),
    "transitions to thermal management 1": (216, 4),
    "transitions to thermal management 2": (220, 4),
    "seconds in thermal management 1": (224, 4),
    "seconds in thermal management 2": (228, 4),
}
_OCP_THROTTLED = 96  # 1 byte: throttling events, which stops at 255


def throttle_counters(health: bytes, ocp: bytes = b"") -> dict[str, int]:
    """Return how often and how long a drive throttled or was too hot (health log, OCP's C0h)."""
    if len(health) < HEALTH_BYTES:
        return {}
    counts = {name: sensors.counter(health, at, size) for name, (at, size) in _THROTTLING.items()}
    counters = {name: count for name, count in counts.items() if count is not None}
    if ocp[496:512] == OCP_GUID:
        counters["thermal throttling events"] = ocp[_OCP_THROTTLED]
    return counters


def watts(page: bytes, at: int) -> float | None:
    """Return the power at an offset of a page, in W; None for 0, which means not reported.

    Bits 15:0 are the value, bits 17:16 its scale.
    """
    field = sensors.counter(page, at, 4) or 0
    return (field & 0xFFFF) * _POWER_SCALES.get(field >> 16 & 3, 0.0) or None


def interval_watts(health: bytes) -> float | None:
    """Return the mean power of the last second in W (Interval Power Measurement), or None."""
    return watts(health, _INTERVAL_POWER)


def energy_wh(health: bytes) -> int | None:
    """Return the energy that a drive has ever used, in watt-hours rounded up, or None."""
    return sensors.counter(health, _ENERGY, 8) or None


def power_histogram(page: bytes) -> dict[float, int]:
    """Return the buckets of the power log (25h): each one's lowest power in W, and its seconds."""
    listed, size = number(page, 12, 2), max(number(page, 24, 2), 8)
    starts = range(64, min(64 + listed * size, len(page) - 7), size)
    return {watts(page, at + 4) or 0.0: number(page, at, 4) for at in starts}


def power_facts(page: bytes) -> dict[str, str]:
    """Return facts from the power measurement log (25h); empty if nothing was measured."""
    if not (seconds := number(page, 8, 4)):
        return {}
    mean, most = watts(page, 40), watts(page, 44)
    listed = (f"from {power:g} W: {count}" for power, count in power_histogram(page).items())
    return {
        "power measured": f"{seconds} s, mean {mean or 0:g} W, most {most or 0:g} W"
        + (", estimated by the drive" if number(page, 2, 2) & 4 else ""),
        "power histogram, seconds": ", ".join(listed),
    }


@dataclass(frozen=True, slots=True)
class LatencyMonitor:
    """Hold the settings and the counts of a drive's latency monitor (OCP's log C3h)."""

    on: bool
    timer: int  # age of the active counters, in units of 5 minutes
    thresholds_ms: tuple[int, ...]  # latency at which each bucket begins
    active: tuple[int, ...]  # requests in each bucket since the timer began
    static: tuple[int, ...]  # the active counters when the timer last ended

    def since(self, before: "LatencyMonitor") -> tuple[int, ...] | None:
        """Return how many requests each bucket got since an earlier reading; None if unknown.

        When its timer ends, the drive copies the active counters to the static ones, and both timer
        and active counters begin again at 0. So a smaller timer and changed static counters must
        come together. If only one of these two signs is there, the counters were reset, or the
        timer ended twice.
        """
        if not (self.on and before.on) or self.thresholds_ms != before.thresholds_ms:
            return None
        again = self.timer < before.timer
        if again != (self.static != before.static):
            return None
        counts = [a + (s if again else 0) for a, s in zip(self.active, self.static, strict=True)]
        more = tuple(now - was for now, was in zip(counts, before.active, strict=True))
        return more if min(more) >= 0 and max(counts) < 0xFFFFFFFF else None


def latency_monitor(page: bytes) -> LatencyMonitor | None:
    """Decode OCP's log C3h, the latency monitor; None for any other page."""
    if len(page) < MONITOR_BYTES or page[496:512] != MONITOR_GUID:
        return None

    def counts(at: int) -> tuple[int, ...]:
        """Return each bucket's number of requests: double words 2 (writes) and 3 (reads), added."""
        rows = range(at, at + 16 * BUCKETS, 16)
        return tuple(number(page, row + 8, 4) + number(page, row + 12, 4) for row in rows)

    return LatencyMonitor(
        on=bool(page[0] & 1),
        timer=number(page, 2, 2),
        thresholds_ms=tuple(THRESHOLD_MS * (step + 1) for step in page[6:10]),
        active=counts(0x20),
        static=counts(0xF0),
    )


def is_ocp(page: bytes) -> bool:
    """Tell by the GUID whether a log page C0h is OCP's; other vendors have a C0h of their own."""
    return page[496:512] == OCP_GUID


def smart_facts(page: bytes) -> dict[str, str]:
    """Return facts from the health log (02h); leave out fields without a reading."""
    page = page.ljust(512, b"\0")
    if sensors.is_blank(page):
        return {}
    warm = sensors.from_kelvin(number(page, 1, 2))
    spare, least = map(sensors.percent, page[3:5])
    written = data_written_bytes(page)
    read = sensors.counter(page, 32, 16)
    counts = {
        "power cycles": sensors.counter(page, 112, 16),
        "power-on hours": sensors.hours(sensors.counter(page, 128, 16)),
        "unsafe shutdowns": sensors.counter(page, 144, 16),
        "media errors": sensors.counter(page, 160, 16),
    }
    told = {
        "temperature": None if warm is None else f"{warm} °C",
        "critical warning": f"{page[0]:#04x}",
        "available spare": None
        if spare is None
        else f"{spare} %" + ("" if least is None else f", threshold {least} %"),
        "percentage used": sensors.used(page[5]),
        "data written": None if written is None else format_capacity(written),
        "data read": None if read is None else format_capacity(read * DATA_UNIT_BYTES),
        "energy ever used": None if (wh := energy_wh(page)) is None else f"{wh:,} Wh",
        "power of the last second": None
        if (power := interval_watts(page)) is None
        else f"{power:g} W",
        **{name: None if count is None else str(count) for name, count in counts.items()},
    }
    return {name: value for name, value in told.items() if value is not None}


# Offsets and sizes of fields in OCP's C0h, from nvme-cli (ocp-smart-extended-log.h).
_OCP_ERRORS = {  # error counters, which a sound drive does not raise during a run
    "OCP bad user blocks": (32, 6),
    "OCP bad system blocks": (40, 6),
    "OCP XOR recoveries": (48, 8),
    "OCP uncorrectable reads": (56, 8),
    "OCP end-to-end errors": (72, 4),
    "OCP end-to-end errors corrected": (76, 4),
    "OCP PCIe correctable errors": (104, 8),
    "OCP link retrainings": (192, 8),
}
_OCP_COUNTS = {
    "OCP soft ECC errors": (64, 8),
    "OCP refreshes": (81, 7),
    "OCP most erases of a block": (88, 4),
    "OCP fewest erases of a block": (92, 4),
    "OCP incomplete shutdowns": (112, 4),
    "OCP free blocks, percent": (120, 1),
    "OCP capacitor health": (128, 2),
    "OCP unaligned requests": (136, 8),
}
_NEWER = 4  # these fields exist since this version of the log
_OCP_NEWER = {
    "OCP media dies offline": (220, 2),
    "OCP mean erases of a block": (224, 8),
    "OCP command timeouts": (232, 4),
}


def ocp_errors(page: bytes) -> dict[str, int]:
    """Return the drive's error counters in OCP's C0h; empty for another vendor's page."""
    if not is_ocp(page):
        return {}
    counts = {name: sensors.counter(page, at, size) for name, (at, size) in _OCP_ERRORS.items()}
    return {name: count for name, count in counts.items() if count is not None}


def _is_known(name: str, page: bytes) -> bool:
    """Tell by the GUID whether a page is the OCP log of this name."""
    return name in _GUIDS and page[-16:] == _GUIDS[name]


def _ocp_log_facts(logs: Mapping[str, bytes]) -> dict[str, str]:
    told = {}
    if RECOVERY in logs:
        page = logs[RECOVERY]
        told["OCP panics"] = f"{page[31]}, last {number(page, 4, 8):#x}" if page[31] else "0"
    if ACTIVATIONS in logs:
        told["OCP firmware activations"] = str(number(logs[ACTIVATIONS], 4, 4))
    if MONITOR in logs and (monitor := latency_monitor(logs[MONITOR])) is not None:
        pairs = zip(monitor.thresholds_ms, monitor.active, strict=True)
        counted = ", ".join(f"{count} from {ms} ms" for ms, count in pairs)
        told["OCP latency monitor"] = counted if monitor.on else "off"
    if UNSUPPORTED in logs:
        page = logs[UNSUPPORTED]
        starts = range(16, 16 + 16 * min(number(page, 0, 2), 253), 16)
        lacks = ", ".join(text(page, at, 16) for at in starts)
        told["OCP requirements that it does not meet"] = lacks or "none"
    return told


def ocp_facts(page: bytes) -> dict[str, str]:
    """Return facts from OCP's health log (C0h); empty for another vendor's page."""
    if not is_ocp(page):
        return {}
    written, read = sensors.counter(page, 0, 16), sensors.counter(page, 16, 16)
    version = number(page, 494, 2)
    fields = {**_OCP_ERRORS, **_OCP_COUNTS, **(_OCP_NEWER if version >= _NEWER else {})}
    counts = {name: sensors.counter(page, at, size) for name, (at, size) in fields.items()}
    counts["OCP log version"] = version
    told = {
        "OCP flash written": None if written is None else format_capacity(written),
        "OCP flash read": None if read is None else format_capacity(read),
        **{name: None if count is None else str(count) for name, count in counts.items()},
    }
    return {name: value for name, value in told.items() if value is not None}


def _feature_facts(pages: Mapping[str, bytes]) -> dict[str, str]:
    told = {}
    if POWER in pages:
        told["power state"] = str(number(pages[POWER], 0, 4) & 31)
    if CACHE in pages:
        told["write cache"] = "on" if number(pages[CACHE], 0, 4) & 1 else "off"
    if TRANSITIONS in pages:
        told["APST now"] = "on" if number(pages[TRANSITIONS], 0, 4) & 1 else "off"
    if MEMORY in pages:
        told["host memory buffer"] = "on" if number(pages[MEMORY], 0, 4) & 1 else "off"
    if PLACEMENT in pages:
        on = number(pages[PLACEMENT], 0, 4) & 1
        told["flexible data placement now"] = "on" if on else "off"
    if FIRMWARE in pages:
        slots = (text(pages[FIRMWARE], 8 * slot, 8) for slot in range(1, 8))
        told["firmware slots"] = ", ".join(
            f"{n}: {name}" for n, name in enumerate(slots, 1) if name
        )
    return told


def _listed(values: list[int] | list[str]) -> str:
    return ", ".join(str(value) for value in values)


def _identifier(value: bytes) -> str:
    return value.hex() if any(value) else ""
