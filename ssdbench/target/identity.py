"""Find for each drive an identity that no other drive has, for the user's consent; no I/O."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import takewhile

from ssdbench.host.sysfs import node_of

PLACE = "path."  # start of an identity made of place and size only
BRIDGES = "the bridge reports it, not the drive, and other bridges may report the same"
NOT_USED = "name not used: "  # start of a key of TargetInfo.facts; the value says why


@dataclass(frozen=True, slots=True)
class Names:
    """Hold all names of one drive; a missing name is empty."""

    nguid: str = ""  # hex
    eui64: str = ""  # hex
    uuid: str = ""
    wwn: str = ""  # naa.…, eui.…
    mapped: str = ""  # dm or md UUID
    model: str = ""
    serial: str = ""
    path: str = ""  # the place where the drive is plugged in
    bridge: str = ""  # the USB bridge before the drive; empty without one
    told_serial: str = ""
    told_name: str = ""  # naa.…, eui.…
    controller: str = ""  # number of the NVMe controller in its subsystem
    unit: str = ""  # NVMe subsystem and namespace number, for same_drive
    size_bytes: int = 0


def of_a_company(name: str) -> bool:
    """Tell whether an NAA name (hex) has a company's number, without which it is not unique.

    Some cheap SATA drives have a name of zeros, or a name in which the company's number is zero
    (NAA 5h and 6h of SPC-5, 7.7.6). All drives of such a model have the same name.
    """
    digits = name.lower().removeprefix("naa.").removeprefix("0x")
    company = digits[1:7] if digits[:1] in ("5", "6") else digits
    return bool(company.strip("0"))


def identity(names: Names, here: Mapping[str, Names]) -> str:
    """Return a drive's identity: its best name that no other drive has; else place and size.

    World-wide names are tried first, then the serial number. A name that another drive may also
    have is not used. `here` has the names of all whole disks of the host by kernel name, including
    this disk.
    """
    usable = (name for name in _own(names) if not _unfit(name, names, here))
    return next(usable, f"{PLACE}{_word(names.path)}.{names.size_bytes}")


def not_used(names: Names, here: Mapping[str, Names]) -> dict[str, str]:
    """Return a drive's names that were not used as identity, each with the reason."""
    reasons = ((name, _unfit(name, names, here)) for name in _own(names))
    serial = _serial(replace(names, serial=names.told_serial)) if names.told_serial else ""
    told = dict.fromkeys(filter(None, (_word(names.told_name), serial)), BRIDGES)
    return {**told, **dict(takewhile(lambda found: found[1], reasons))}


def _unfit(name: str, names: Names, here: Mapping[str, Names]) -> str:
    """Return why another drive could also have this name; "" if no reason is known.

    All namespaces of a controller have its serial number; USB bridges may report the same serial
    number for different drives; in some series of drives, all drives have the same world-wide name.
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
    """Tell whether an identity is a placeholder: zeros, one repeated digit, no company's number.

    In a real name, the company's number (OUI) is not zero, and the company's own part is not nearly
    all zeros or ones. Locally given names (NAA 3h of SPC-5, 7.7.6) are also placeholders, because
    they are unique only on one host.
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
    """Tell whether six hex digits are not a company's number: zeros, or QEMU's local 525400.

    Other numbers with the local bit are accepted, because some makers write their number backwards.
    """
    return digits in ("000000", "525400")


def _empty(digits: str) -> bool:
    """Tell whether all hex digits, except at most two, are 0, or all except two are f."""
    return len(digits) >= _LEAST_DIGITS and any(
        digits.count(filling) >= len(digits) - _MOST_ODD_DIGITS for filling in "0f"
    )


# World-wide names that unrelated drives of different owners have.
KNOWN_FILLERS = frozenset({"naa.502b2a201d1c1b1a"})
NO_SERIALS = frozenset(
    {"none", "unknown", "n/a", "na", "default_string", "serial", "serial_number"}
)
_MOST_ODD_DIGITS = 2
_COUNTING = ("0123456789abcdef" * 2, "1234567890" * 3, "123456789abcdef0" * 2, "9876543210" * 3)
_LEAST_DIGITS = 8


def _patterned(text: str) -> bool:
    """Tell whether a text is one repeated character, or mostly digits that count up or down."""
    runs = (text[at : at + _LEAST_DIGITS] for at in range(max(0, len(text) - _LEAST_DIGITS) + 1))
    counts = any(len(run) == _LEAST_DIGITS and run in row for run in runs for row in _COUNTING)
    most = len(text) < 2 * _LEAST_DIGITS
    return len(text) >= _LEAST_DIGITS and (len(set(text)) == 1 or (counts and most))


def same_drive(mine: Names, other: Names) -> bool:
    """Tell whether two sets of names belong to paths to the same drive.

    The same name is not enough if model, serial number or size differ. Disks behind bridges, or at
    two SATA ports, are different drives. Two controllers with the same controller id do not belong
    to one NVMe drive.
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
    """Describe how model and serial number changed between two readings; empty if they agree."""
    return [
        f"its {what} is {is_now or 'unknown'}, and was {was or 'unknown'}"
        for what, is_now, was in zip(("model", "serial number"), now, then, strict=True)
        if is_now != was
    ]


def _own(names: Names) -> Iterator[str]:
    """Yield the names that a drive reports itself, the best one first."""
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
    """Encode a value as one word: a space becomes `_`, other special characters `%` and hex."""

    def shown(character: str) -> str:
        if character == " ":
            return "_"
        plain = character.isascii() and character.isprintable() and character not in "_%"
        return character if plain else "".join(f"%{byte:02X}" for byte in character.encode())

    return "".join(shown(character) for character in value)
