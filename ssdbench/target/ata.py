"""Decode ATA pages of ACS-4, such as IDENTIFY DEVICE and SMART data; no I/O."""

from collections.abc import Mapping
from dataclasses import dataclass

from ssdbench.host import sensors
from ssdbench.units import format_capacity

IDENTIFY, SMART, NATIVE_MAX = "ata identify", "ata smart data", "ata native max registers"
ACCESSIBLE_MAX = "ata accessible max address registers"
SPEEDS = {1: "1.5 Gb/s", 2: "3 Gb/s", 3: "6 Gb/s"}


@dataclass(frozen=True, slots=True)
class Identify:
    """Hold the fields of IDENTIFY DEVICE that ssdbench uses."""

    serial: str
    firmware: str
    model: str
    wwn: str
    sectors: int
    logical_bytes: int
    cache_present: bool
    cache_on: bool
    security_supported: bool
    security_enabled: bool
    security_locked: bool
    security_frozen: bool
    enhanced_erase: bool
    erase_minutes: int
    sanitizes: frozenset[str]
    trim: bool
    host_protected_area: bool
    accessible_max: bool  # successor of the host protected area since ACS-3
    queue_depth: int
    speed_now: str
    speed_most: str
    trusted: bool


def words(page: bytes) -> list[int]:
    """Return the 256 words (16 bits each) of a page; missing words are 0."""
    padded = page.ljust(512, b"\0")
    return [int.from_bytes(padded[at : at + 2], "little") for at in range(0, 512, 2)]


def identify(page: bytes) -> Identify:
    """Decode the fields of an IDENTIFY DEVICE page that ssdbench uses."""
    word = words(page)
    logical = 2 * (word[117] | word[118] << 16) if word[106] & 0x5000 == 0x5000 else 512
    wide = bool(word[83] & 1 << 10)
    named = ((1 << 15, "block"), (1 << 14, "overwrite"), (1 << 13, "crypto"))
    most = max((bit for bit in (1, 2, 3) if word[76] & 1 << bit), default=0)
    return Identify(
        serial=_text(word, 10, 20),
        firmware=_text(word, 23, 27),
        model=_text(word, 27, 47),
        wwn="".join(f"{value:04x}" for value in word[108:112]) if word[87] & 1 << 8 else "",
        sectors=sum(word[100 + i] << 16 * i for i in range(4))
        if wide
        else word[60] | word[61] << 16,
        logical_bytes=logical or 512,
        cache_present=bool(word[82] & 1 << 5),
        cache_on=bool(word[85] & 1 << 5),
        security_supported=bool(word[128] & 1),
        security_enabled=bool(word[128] & 2),
        security_locked=bool(word[128] & 4),
        security_frozen=bool(word[128] & 8),
        enhanced_erase=bool(word[128] & 32),
        # The erase time has steps of 2 minutes, and 15 bits if bit 15 is set (ACS-4, word 89).
        erase_minutes=2 * (word[89] & (0x7FFF if word[89] & 0x8000 else 0xFF)),
        sanitizes=frozenset(n for bit, n in named if word[59] & 1 << 12 and word[59] & bit),
        trim=bool(word[169] & 1),
        host_protected_area=bool(word[82] & 1 << 10),
        accessible_max=bool(word[119] & 1 << 8),
        queue_depth=(word[75] & 31) + 1 if word[76] & 1 << 8 else 1,
        speed_now=SPEEDS.get(word[77] >> 1 & 7, ""),
        speed_most=SPEEDS.get(most, ""),
        trusted=bool(word[48] & 1),
    )


def whole(page: bytes) -> bool:
    """Tell whether an IDENTIFY page has a correct checksum or none at all (word 255)."""
    return len(page) == 512 and (page[510] != 0xA5 or sum(page) % 256 == 0)


def native_max(sense: bytes) -> int | None:
    """Return the drive's highest address from a command's ATA return descriptor, or None.

    The command is READ NATIVE MAX ADDRESS EXT or, since ACS-3, GET NATIVE MAX ADDRESS EXT.
    """
    if len(sense) < 22 or sense[0] & 0x7F != 0x72 or sense[8] != 0x09:
        return None
    at = sense[8:]
    return at[7] | at[9] << 8 | at[11] << 16 | at[6] << 24 | at[8] << 32 | at[10] << 40


def smart_values(page: bytes) -> dict[int, int]:
    """Return SMART attributes' raw values (48 bits) by number; leave out values of all ones."""
    values = {}
    for at in range(2, 362, 12):
        if len(page) >= at + 12 and page[at]:
            value = sensors.counter(page, at + 5, 6)
            if value is not None:
                values[page[at]] = value
    return values


def temperature(values: Mapping[int, int]) -> int | None:
    """Return the temperature in °C from the SMART attributes that most drives use, or None.

    The low byte of a value is the newest reading; some drives have extreme readings in the higher
    bytes. Attribute 190 is the airflow temperature; many drives have only this one. A value of 0
    marks an unused attribute.
    """
    found = (values[number] & 0xFF for number in (194, 190) if number in values)
    return next((c for c in found if c and c < 128 and sensors.celsius(c) is not None), None)


def facts(pages: Mapping[str, bytes]) -> dict[str, str]:
    """Return the facts in a drive's ATA pages, for the report."""
    told: dict[str, str] = {}
    if IDENTIFY in pages:
        said = identify(pages[IDENTIFY])
        told |= {
            "capacity by IDENTIFY": format_capacity(said.sectors * said.logical_bytes),
            "write cache": _state(said.cache_present, said.cache_on),
            "ATA security": _state(said.security_supported, said.security_enabled)
            + (", locked" if said.security_locked else "")
            + (", frozen" if said.security_frozen else ""),
            "TRIM": "supported" if said.trim else "not supported",
            "sanitize": ", ".join(sorted(said.sanitizes)) or "not supported",
            "queue depth": str(said.queue_depth),
            "link speed": f"{said.speed_now or 'unknown'} of {said.speed_most or 'unknown'}",
        }
    for name, register in (
        ("host protected area", NATIVE_MAX),
        ("beyond the accessible max address", ACCESSIBLE_MAX),
    ):
        top = native_max(pages[register]) if IDENTIFY in pages and register in pages else None
        if top is not None:
            hidden = top + 1 - identify(pages[IDENTIFY]).sectors
            told[name] = f"{hidden} sectors" if hidden > 0 else "none"
    if SMART in pages:
        values = smart_values(pages[SMART])
        told |= {f"SMART {number}": str(value) for number, value in sorted(values.items())}
        if (celsius := temperature(values)) is not None:
            told["temperature"] = f"{celsius} °C"
    return told


def _state(there: bool, on: bool) -> str:
    return ("on" if on else "off") if there else "not supported"


def _text(word: list[int], start: int, end: int) -> str:
    raw = b"".join(value.to_bytes(2, "big") for value in word[start:end])
    return raw.decode("ascii", "replace").strip(" \0")


def sanitizing(sense: bytes) -> bool:
    """Tell whether SANITIZE STATUS EXT shows that a sanitize is running (ACS-4: bit 14)."""
    if len(sense) < 22 or sense[0] & 0x7F != 0x72 or sense[8] != 0x09:
        return False
    return bool(sense[8:][4] & 0x40)
