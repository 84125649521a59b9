"""Decode SCSI pages: vital product data, capacity and mode pages of SPC-5 and SBC-4; no I/O."""

from collections.abc import Iterator, Mapping

from ssdbench.host import sensors
from ssdbench.target.identity import of_a_company
from ssdbench.units import format_capacity

SERIAL, DEVICE_ID = "scsi vpd 80h", "scsi vpd 83h"
LIMITS, CHARACTERISTICS, PROVISIONING = "scsi vpd b0h", "scsi vpd b1h", "scsi vpd b2h"
CAPACITY, CACHING = "scsi read capacity 16", "scsi caching mode page"
INQUIRY, TEMPERATURE = "scsi inquiry", "scsi temperature log"
ENDURANCE, EXCEPTIONS = "scsi solid state media log", "scsi informational exceptions log"
RESERVATION, CONFLICT = "scsi persistent reservation", "scsi reservation conflict"
CONFLICT_STATUS = 0x18  # RESERVATION CONFLICT (SAM-6 5.3.1)
READ_CAPACITY = bytes([0x9E, 0x10, *bytes(8), 0, 0, 0, 32, 0, 0])
LOGICAL_UNIT, TARGET_PORT = 0, 1  # values of a designator's association
SAS = 6  # a protocol identifier (SPC-5 7.6.1)
NAA = 3
STRONG = {NAA: "naa", 2: "eui"}  # designator types whose names are unique worldwide


def world_wide_name(page: bytes) -> str:
    """Return the logical unit's NAA name in page 83h, else its EUI-64 name, else ""."""
    names = {}
    for association, kind, name, _ in _designators(page):
        if (
            association == LOGICAL_UNIT
            and kind in STRONG
            and any(name)
            and (kind != NAA or of_a_company(name.hex()))
        ):
            names[kind] = f"{STRONG[kind]}.{name.hex()}"
    return names.get(3) or names.get(2) or ""


def name_of_a_drive(page: bytes) -> bool:
    """Tell whether page 83h has a kind of name that drive makers use (arrays use others).

    Such a name is an NAA 5h name of 8 bytes, an EUI-64 name, or a name of 16 bytes if the unit also
    has a SAS port. Drives with several logical units have names of 16 bytes. A RAID volume may also
    have such a name, but it has no SAS port.
    """
    name = world_wide_name(page)
    return name.startswith(("naa.5", "eui.")) or (bool(name) and has_port(page))


def has_port(page: bytes) -> bool:
    """Tell whether page 83h has the name of a SAS port of the unit."""
    return any(
        association == TARGET_PORT and protocol == SAS
        for association, _, _, protocol in _designators(page)
    )


def _designators(page: bytes) -> Iterator[tuple[int, int, bytes, int | None]]:
    """Yield each designator of page 83h: association, type, name, and protocol if known."""
    at, end = 4, 4 + int.from_bytes(page[2:4], "big")
    while at + 4 <= min(len(page), end):
        kind, length = page[at + 1], page[at + 3]
        name = page[at + 4 : at + 4 + length]
        if len(name) == length:
            yield kind >> 4 & 3, kind & 15, name, page[at] >> 4 if kind & 0x80 else None
        at += 4 + length


def serial(page: bytes) -> str:
    """Return the unit serial number of page 80h."""
    return page[4 : 4 + page[3]].decode("ascii", "replace").strip(" \0") if len(page) > 4 else ""


def cache_on(page: bytes) -> bool | None:
    """Tell whether the write cache is on (WCE), from a MODE SENSE (10) answer; None if unknown."""
    at = 8 + int.from_bytes(page[6:8], "big")
    if len(page) < at + 3 or page[at] & 0x3F != 0x08:
        return None
    return bool(page[at + 2] & 4)


def reserved(page: bytes) -> bool:
    """Tell whether an answer to READ RESERVATION shows a reservation."""
    return int.from_bytes(page[4:8], "big") > 0


def parameter(page: bytes, code: int) -> bytes:
    """Return the value of one parameter in a log page (SPC-5 7.3); empty bytes if missing."""
    at, end = 4, min(len(page), 4 + int.from_bytes(page[2:4], "big"))
    while at + 4 <= end:
        length = page[at + 3]
        if int.from_bytes(page[at : at + 2], "big") == code:
            return page[at + 4 : at + 4 + length]
        at += 4 + length
    return b""


def protection(capacity: bytes) -> int:
    """Return the type of protection information from READ CAPACITY (16); 0 if it is off."""
    if len(capacity) < 13 or not capacity[12] & 1:
        return 0
    return (capacity[12] >> 1 & 7) + 1


def format_of(capacity: bytes) -> tuple[bytes, int]:
    """Return a unit's block size and protection, which a purge by format must keep."""
    return capacity[8:12], protection(capacity)


def at_work(sense: bytes) -> bool:
    """Tell by sense data whether a unit is busy with a format or sanitize (SPC-5, annex F)."""
    key, code, qualifier = _said(sense)
    return key == 2 and code == 0x04 and qualifier in (0x04, 0x1B)


def unsupported(sense: bytes) -> bool:
    """Tell by sense data whether a unit does not know a command (ILLEGAL REQUEST)."""
    return _said(sense)[0] == 5


def attention(sense: bytes) -> bool:
    """Tell by sense data whether a unit reported an event, such as a reset, and did not answer."""
    return _said(sense)[0] == 6


def _said(sense: bytes) -> tuple[int, int, int]:
    """Return the sense key, additional code and qualifier; zeros if the sense data is too short."""
    fixed = sense[:1] != b"" and sense[0] & 0x7F in (0x70, 0x71)
    key, code, qualifier = (2, 12, 13) if fixed else (1, 2, 3)
    if len(sense) <= qualifier:
        return 0, 0, 0
    return sense[key] & 15, sense[code], sense[qualifier]


def facts(pages: Mapping[str, bytes]) -> dict[str, str]:
    """Return the facts in a drive's SCSI pages, for the report."""
    told: dict[str, str] = {}
    if name := world_wide_name(pages.get(DEVICE_ID, b"")):
        told["world wide name"] = name
    capacity = pages.get(CAPACITY, b"")
    if len(capacity) >= 14:
        blocks, size = (
            int.from_bytes(capacity[:8], "big") + 1,
            int.from_bytes(capacity[8:12], "big"),
        )
        told["capacity by READ CAPACITY"] = format_capacity(blocks * size)
        kind = protection(capacity)
        told["protection"] = f"type {kind}" if kind else "none"
    on = cache_on(pages.get(CACHING, b""))
    if on is not None:
        told["write cache"] = "on" if on else "off"
    spin = pages.get(CHARACTERISTICS, b"")
    if len(spin) >= 6:
        rate = int.from_bytes(spin[4:6], "big")
        told["medium"] = "solid state" if rate == 1 else f"rotation {rate}" if rate else "unknown"
    warm = parameter(pages.get(TEMPERATURE, b""), 0)[1:2]
    if warm and sensors.celsius(warm[0]) is not None:  # FFh means no reading
        told["temperature"] = f"{warm[0]} °C"
    if used := parameter(pages.get(ENDURANCE, b""), 1)[3:4]:
        told["percentage used"] = sensors.used(used[0])
    if len(inquiry := pages.get(INQUIRY, b"")) >= 36:
        words = (inquiry[8:16], inquiry[16:32], inquiry[32:36])
        told["inquiry"] = " ".join(word.decode("ascii", "replace").strip() for word in words)
    limits = pages.get(LIMITS, b"")
    if len(limits) >= 24:
        told["most blocks per unmap"] = str(int.from_bytes(limits[20:24], "big"))
    return told
