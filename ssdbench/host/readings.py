"""Which values of sensors and health pages are readings, and which say that there is none; pure.

Drives, bridges and the kernel have many words for "unknown": 0 K (-273.15 °C), a byte of FFh, a
number with all bits set, 2147483647, a page of zeros or of FFh, and "(null)". None of them may
become a temperature, a threshold or a count.
"""

NOTHING = "(null)"  # the kernel's printk for a string that is not there
KELVIN = 273  # of 0 °C, as NVMe counts
# Flash is specified from -40 °C to 105 °C at most (JEDEC JESD47, automotive grade 2).
COLDEST_C, HOTTEST_C = -60.0, 150.0
MOST_HOURS = 1_000_000  # 114 years of power
MOST_PERCENT = 100


def celsius(value: float | None) -> float | None:
    """A temperature, or None for what no drive and no host can have."""
    if value is None or not COLDEST_C < value < HOTTEST_C:
        return None
    return value


def from_kelvin(kelvin: int) -> int | None:
    """Degrees Celsius of NVMe's whole kelvins, where 0 is no reading."""
    return None if celsius(kelvin - KELVIN) is None else kelvin - KELVIN


def above_freezing(value: float | None) -> float | None:
    """A temperature as hosts and warnings have them; a warning at or below 0 °C was never set."""
    found = celsius(value)
    return found if found is not None and found > 0 else None


def is_blank(page: bytes) -> bool:
    """Whether a page says nothing: there is none, or all its bytes are 0, or all are FFh."""
    return not page.strip(b"\0") or not page.strip(b"\xff")


def counter(page: bytes, offset: int, size: int) -> int | None:
    """A little-endian count of a page, None where all its bits are set or the page is too short."""
    field = page[offset : offset + size]
    if len(field) < size or not field.strip(b"\xff"):
        return None
    return int.from_bytes(field, "little")


def percent(value: int) -> int | None:
    """A share of a whole, such as the available spare; None above 100."""
    return value if 0 <= value <= MOST_PERCENT else None


def used(value: int) -> str:
    """The percentage of a drive's life that is used, which a byte holds up to 254."""
    return f"{value} %" if value < 0xFF else "more than 254 %, or not told (FFh)"


def hours(value: int | None) -> int | None:
    """Hours of power; None for more than any drive can have had."""
    return value if value is not None and 0 <= value <= MOST_HOURS else None
