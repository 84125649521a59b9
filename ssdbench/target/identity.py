"""Name a drive so that the name fits no other one (pure): consent is given for it."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import takewhile

from ssdbench.host.sysfs import node_of

PLACE = "path."  # how an identity begins that is but a place and a size
BRIDGES = "it is what stands between that tells it, and not the drive: bridges share such names"
NOT_USED = "name not used: "  # before a name in TargetInfo.facts; the value says why


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
    bridge: str = ""  # what it is behind that has names of its own: told, and never used
    told_serial: str = ""
    told_name: str = ""  # naa.…, eui.…
    controller: str = ""  # the number of its NVMe controller in the subsystem
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


def identity(names: Names, here: Mapping[str, Names]) -> str:
    """What consent is given for: of the thing itself if it can be, else of its place and size.

    World-wide names first, then the serial; a name that fits other drives as well is never enough.
    `here` are the names of every whole disk of the host, this one included, by kernel name.
    """
    usable = (name for name in _own(names) if not _unfit(name, names, here))
    return next(usable, f"{PLACE}{_word(names.path)}.{names.size_bytes}")


def not_used(names: Names, here: Mapping[str, Names]) -> dict[str, str]:
    """Better names of a drive than its identity, each with the reason why it is not enough."""
    reasons = ((name, _unfit(name, names, here)) for name in _own(names))
    told = {name: BRIDGES for name in _told(names)}
    return {**told, **dict(takewhile(lambda found: found[1], reasons))}


def _told(names: Names) -> list[str]:
    """The names that a bridge tells, as they would be if they were the drive's."""
    serial = _serial(replace(names, serial=names.told_serial)) if names.told_serial else ""
    return [name for name in (_word(names.told_name), serial) if name]


def _unfit(name: str, names: Names, here: Mapping[str, Names]) -> str:
    """Why a name of a drive could be another one's; empty when nothing says so.

    Namespaces of a controller share its serial, USB bridges clone it, and whole series of cheap
    drives were made with one world-wide name.
    """
    if filler(name):
        return "it is a filler, or was given on one host alone, so other drives may show it as well"
    others = (
        kernel
        for kernel, other in here.items()
        if other != names
        and not same_drive(names, other)
        and (name in _own(other) or name == _serial(names) and other.serial == names.serial)
    )
    other = next(others, None)
    return f"{node_of(other)} shows it as well, and is another drive" if other else ""


def filler(name: str) -> bool:
    """Whether an identity is what a maker leaves who gives none: zeros, one digit, no company.

    The bytes that IEEE gives out per company (OUI) are never zero in a real name, and what a
    company adds is never all but empty. Names that are given locally (NAA 3h of SPC-5, 7.7.6) are
    unique at most on the host that gave them.
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
    """Whether a company's number is none; QEMU gives 525400h, a local one, to all that it makes.

    The local bit alone says nothing: makers were seen to write their number backwards.
    """
    return digits in ("000000", "525400")


def _empty(digits: str) -> bool:
    """Whether all but two digits are zeros, or ones: what a company adds when it adds nothing."""
    return len(digits) >= _LEAST_DIGITS and any(
        digits.count(filling) >= len(digits) - _MOST_ODD_DIGITS for filling in "0f"
    )


# Seen on drives of different owners that have nothing to do with each other.
KNOWN_FILLERS = frozenset({"naa.502b2a201d1c1b1a"})
NO_SERIALS = frozenset(
    {"none", "unknown", "n/a", "na", "default_string", "serial", "serial_number"}
)
_MOST_ODD_DIGITS = 2
_COUNTING = ("0123456789abcdef" * 2, "1234567890" * 3, "123456789abcdef0" * 2, "9876543210" * 3)
_LEAST_DIGITS = 8


def _patterned(text: str) -> bool:
    """Whether text is one character again and again, or mostly counts up or down."""
    runs = (text[at : at + _LEAST_DIGITS] for at in range(max(0, len(text) - _LEAST_DIGITS) + 1))
    counts = any(len(run) == _LEAST_DIGITS and run in row for run in runs for row in _COUNTING)
    most = len(text) < 2 * _LEAST_DIGITS
    return len(text) >= _LEAST_DIGITS and (len(set(text)) == 1 or (counts and most))


def same_drive(mine: Names, other: Names) -> bool:
    """Whether two nodes lead to one drive: two live paths, when neither is the other's part.

    One name is not enough where model, serial or size tell two drives apart. A bridge and a port of
    SATA lead to one drive each, and two controllers of one NVMe drive have different numbers.
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
    """In words how model and serial of two looks at one identity differ; empty when they agree."""
    return [
        f"its {what} is {is_now or 'unknown'}, and was {was or 'unknown'}"
        for what, is_now, was in zip(("model", "serial number"), now, then, strict=True)
        if is_now != was
    ]


def _own(names: Names) -> Iterator[str]:
    """The names of the thing itself, best first."""
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
    """One word that stands for just this value: a space becomes `_`, what is odd its number."""

    def shown(character: str) -> str:
        if character == " ":
            return "_"
        plain = character.isascii() and character.isprintable() and character not in "_%"
        return character if plain else "".join(f"%{byte:02X}" for byte in character.encode())

    return "".join(shown(character) for character in value)
