"""Give each drive an identity that no other drive has (pure): consent is given for it."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import takewhile

from ssdbench.host.sysfs import node_of

PLACE = "path."  # begins an identity that is only a place and a size
BRIDGES = "the bridge reports it, not the drive, and other bridges may report the same"
NOT_USED = "name not used: "  # begins a key of TargetInfo.facts; the value says why


@dataclass(frozen=True, slots=True)
class Names:
    """Hold every name of one drive; names that it lacks are empty."""

    nguid: str = ""  # hex
    eui64: str = ""  # hex
    uuid: str = ""
    wwn: str = ""  # naa.…, eui.…
    mapped: str = ""  # dm or md UUID
    model: str = ""
    serial: str = ""
    path: str = ""  # where it is plugged in
    bridge: str = ""  # the bridge it is behind, whose own names are shown but never used
    told_serial: str = ""
    told_name: str = ""  # naa.…, eui.…
    controller: str = ""  # the number of its NVMe controller in the subsystem
    unit: str = ""  # NVMe subsystem and namespace number, where nothing better is known
    size_bytes: int = 0


def of_a_company(name: str) -> bool:
    """Return whether an NAA name (hex) has a company's number, as unique names need.

    Some cheap SATA drives have a name of zeros, or a name without a company (NAA 5h and 6h of
    SPC-5, 7.7.6), which is the same for every drive of the model.
    """
    digits = name.lower().removeprefix("naa.").removeprefix("0x")
    company = digits[1:7] if digits[:1] in ("5", "6") else digits
    return bool(company.strip("0"))


def identity(names: Names, here: Mapping[str, Names]) -> str:
    """Return the identity for the consent: the drive's own name if it has one, else place and size.

    World-wide names come first, then the serial number. A name that another drive may have is never
    used. `here` are the names of every whole disk of the host, this one included, by kernel name.
    """
    usable = (name for name in _own(names) if not _unfit(name, names, here))
    return next(usable, f"{PLACE}{_word(names.path)}.{names.size_bytes}")


def not_used(names: Names, here: Mapping[str, Names]) -> dict[str, str]:
    """Return better names of a drive than its identity, each with why it was not used."""
    reasons = ((name, _unfit(name, names, here)) for name in _own(names))
    serial = _serial(replace(names, serial=names.told_serial)) if names.told_serial else ""
    told = dict.fromkeys(filter(None, (_word(names.told_name), serial)), BRIDGES)
    return {**told, **dict(takewhile(lambda found: found[1], reasons))}


def _unfit(name: str, names: Names, here: Mapping[str, Names]) -> str:
    """Return why a name could belong to another drive; empty without such a reason.

    Namespaces of a controller share its serial number, USB bridges copy it, and some series of
    drives have one world-wide name.
    """
    if filler(name):
        return "it is a placeholder, or was given by one host only, so other drives may have it too"
    others = (
        kernel
        for kernel, other in here.items()
        if other != names
        and not same_drive(names, other)
        and (name in _own(other) or name == _serial(names) and other.serial == names.serial)
    )
    other = next(others, None)
    return f"{node_of(other)}, another drive, has it too" if other else ""


def filler(name: str) -> bool:
    """Return whether an identity is a maker's placeholder: zeros, one digit, no company.

    A company's number (OUI) is never zero, and the part that the company adds is never almost
    empty. Names given locally (NAA 3h of SPC-5, 7.7.6) are unique only on one host.
    """
    kind, _, value = name.partition(".")
    if kind == "serial":
        serial = value.rpartition(".")[2].lower()
        return serial in NO_SERIALS or _patterned(serial) or serial.endswith("0" * _LEAST_DIGITS)
    digits = re.sub(r"[^0-9a-f]", "", value.lower())
    if name in KNOWN_FILLERS or _patterned(digits):
        return True
    match kind, digits[:1], len(digits):
        case "naa", "3", _:
            return True
        case "naa", "2", 16:
            return not digits[4:10].strip("0") or _empty(digits[1:4] + digits[10:])
        case "naa", "5" | "6", length if length >= 16:
            return not of_a_company(name) or _empty(digits[7:])
        case "eui", _, 16:
            return _no_company(digits[:6]) or _empty(digits[6:])
        case "eui", _, 32:
            return _no_company(digits[16:22]) or _empty(digits[:16] + digits[22:])
    return False


def _no_company(digits: str) -> bool:
    """Return whether this is not a company's number; QEMU gives each device the local 525400h.

    The local bit alone proves nothing: some makers write their number backwards.
    """
    return digits in ("000000", "525400")


def _empty(digits: str) -> bool:
    """Return whether all but two digits are zeros, or all but two are ones."""
    return len(digits) >= _LEAST_DIGITS and any(
        digits.count(filling) >= len(digits) - _MOST_ODD_DIGITS for filling in "0f"
    )


# Seen on unrelated drives of different owners.
KNOWN_FILLERS = frozenset({"naa.502b2a201d1c1b1a"})
NO_SERIALS = frozenset(
    {"none", "unknown", "n/a", "na", "default_string", "serial", "serial_number"}
)
_MOST_ODD_DIGITS = 2
_COUNTING = ("0123456789abcdef" * 2, "1234567890" * 3, "123456789abcdef0" * 2, "9876543210" * 3)
_LEAST_DIGITS = 8


def _patterned(text: str) -> bool:
    """Return whether text repeats one character, or mostly counts up or down."""
    runs = (text[at : at + _LEAST_DIGITS] for at in range(max(0, len(text) - _LEAST_DIGITS) + 1))
    counts = any(len(run) == _LEAST_DIGITS and run in row for run in runs for row in _COUNTING)
    most = len(text) < 2 * _LEAST_DIGITS
    return len(text) >= _LEAST_DIGITS and (len(set(text)) == 1 or (counts and most))


def same_drive(mine: Names, other: Names) -> bool:
    """Return whether two nodes are live paths to one drive.

    One common name is not enough where model, serial number or size differ. Two bridges or SATA
    ports are two drives, and two controllers of one NVMe drive have different numbers.
    """
    if any(
        (value := getattr(mine, name)) and (its := getattr(other, name)) and value != its
        for name in ("model", "serial", "size_bytes")
    ):
        return False
    ports = "-ata-" in mine.path and "-ata-" in other.path and mine.path != other.path
    if ports or mine.bridge or other.bridge:
        return False
    slots = {names.path.rpartition("-nvme-")[0] for names in (mine, other)}
    if mine.controller and mine.controller == other.controller and len(slots) == 2:
        return False
    one_serial = bool(mine.serial) and mine.serial == other.serial
    for name, kind in (("nguid", "eui."), ("eui64", "eui."), ("uuid", "uuid."), ("wwn", "")):
        value = getattr(mine, name)
        if value and value == getattr(other, name) and (one_serial or not filler(f"{kind}{value}")):
            return True
    return bool(mine.unit) and mine.unit == other.unit


def differences(now: Sequence[str], then: Sequence[str]) -> list[str]:
    """Describe how model and serial number changed between two looks; empty when they agree."""
    return [
        f"its {what} is {is_now or 'unknown'}, and was {was or 'unknown'}"
        for what, is_now, was in zip(("model", "serial number"), now, then, strict=True)
        if is_now != was
    ]


def _own(names: Names) -> Iterator[str]:
    """Yield the drive's own names, best first."""
    if names.nguid:
        yield f"eui.{names.nguid}"
    if names.eui64:
        yield f"eui.{names.eui64}"
    if names.uuid:
        yield f"uuid.{_word(names.uuid)}"
    if names.wwn:
        yield _word(names.wwn)
    if names.mapped:
        yield f"mapped.{_word(names.mapped)}"
    if names.serial:
        yield _serial(names)


def _serial(names: Names) -> str:
    return f"serial.{_word(names.model) or 'unknown'}.{_word(names.serial).replace('.', '%2E')}"


def _word(value: str) -> str:
    """Return a value as one unambiguous word: a space is `_`, other odd characters are numbers."""

    def shown(character: str) -> str:
        if character == " ":
            return "_"
        plain = character.isascii() and character.isprintable() and character not in "_%"
        return character if plain else "".join(f"%{byte:02X}" for byte in character.encode())

    return "".join(shown(character) for character in value)
