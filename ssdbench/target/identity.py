"""Which drive exactly: the name that consent is given for (pure)."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Names:
    """Every name of one drive, empty where it has none."""

    nguid: str = ""  # hex
    eui64: str = ""  # hex
    uuid: str = ""
    wwn: str = ""  # naa.…, eui.…
    mapped: str = ""  # dm or md UUID
    model: str = ""
    serial: str = ""
    path: str = ""  # where it is plugged in
    unit: str = ""  # NVMe subsystem and namespace number: a drive may have nothing better
    size_bytes: int = 0


def of_a_company(name: str) -> bool:
    """Whether an NAA name (hex) begins with a company's number, as names of one unit must.

    Cheap SATA drives tell a world-wide name of zeros, or one without a company (NAA 5h and 6h of
    SPC-5, 7.7.6): every drive of the model has it, so it names none.
    """
    digits = name.lower().removeprefix("naa.").removeprefix("0x")
    company = digits[1:7] if digits[:1] in ("5", "6") else digits
    return bool(company.strip("0"))


def identity(names: Names, serials_here: Iterable[tuple[str, str]]) -> str:
    """What consent is given for: of the thing itself if it can be, else of its place and size.

    World-wide names first. A serial only when no other drive of this host shows it: namespaces
    of a controller share one, and USB bridges clone them. `serials_here` are (model, serial) of
    every whole disk of the host, this one included.
    """
    if names.nguid:
        return f"eui.{names.nguid}"
    if names.eui64:
        return f"eui.{names.eui64}"
    if names.uuid:
        return f"uuid.{names.uuid}"
    if names.wwn:
        return names.wwn
    if names.mapped:
        return f"mapped.{_word(names.mapped)}"
    if names.serial and Counter(serial for _, serial in serials_here)[names.serial] <= 1:
        return f"serial.{_word(names.model)}.{_word(names.serial)}"
    return f"path.{_word(names.path)}.{names.size_bytes}"


def same_drive(mine: Names, other: Names) -> bool:
    """Whether two nodes lead to one drive: two live paths, when neither is the other's part."""
    for name in ("nguid", "eui64", "uuid", "wwn", "unit"):
        value = getattr(mine, name)
        if value and value == getattr(other, name):
            return True
    return False


def _word(value: str) -> str:
    return "_".join(value.split()) or "unknown"
