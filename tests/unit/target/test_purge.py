"""A purge takes one target with it and no other."""

import pytest

from ssdbench.model.profile import Purge
from ssdbench.target import ata, nvme
from ssdbench.target.pages import Protocol
from ssdbench.target.purge import obstacles
from tests.unit.target.test_pages import captured


def controller(*, fna: int = 0, sanicap: int = 0, oacs: int = 2, cmic: int = 0) -> bytes:
    page = bytearray(4096)
    page[76], page[256], page[328], page[524] = cmic, oacs, sanicap, fna
    return bytes(page)


def siblings(*numbers: int) -> bytes:
    return b"".join(n.to_bytes(4, "little") for n in numbers).ljust(4096, b"\0")


def found(page: bytes, *numbers: int) -> dict[str, bytes]:
    return {nvme.CONTROLLER: page, nvme.SIBLINGS: siblings(*numbers)}


@pytest.mark.parametrize(
    ("wanted", "pages", "reason"),
    [
        (Purge.SANITIZE, found(controller(sanicap=3), 1, 2), "all namespaces of the subsystem"),
        (Purge.FORMAT, found(controller(fna=1), 1, 2), "changes all namespaces (1, 2)"),
        (Purge.FORMAT, found(controller(fna=2), 1, 2), "changes all namespaces (1, 2)"),
        (Purge.FORMAT, found(controller(oacs=0), 1), "no format command"),
        (Purge.SANITIZE, found(controller(sanicap=4), 1), "neither a crypto"),
        (Purge.FORMAT, {nvme.CONTROLLER: controller()}, "cannot tell"),
        (
            Purge.SANITIZE,
            {**found(controller(sanicap=3, cmic=2), 1), nvme.ALLOCATED: siblings(1, 7)},
            "all namespaces of the subsystem (1, 7)",
        ),
        (Purge.SANITIZE, found(controller(sanicap=3, cmic=2), 1), "the other controllers"),
        (Purge.FORMAT, found(controller(fna=1, cmic=2), 1), "the other controllers"),
    ],
    ids=[
        "sanitize-all",
        "format-all",
        "erase-all",
        "no-format",
        "overwrite-only",
        "unknown",
        "sanitize-another-controllers",
        "sanitize-unknown",
        "format-all-unknown",
    ],
)
def test_a_purge_that_reaches_further_is_refused(
    wanted: Purge, pages: dict[str, bytes], reason: str
) -> None:
    assert any(reason in said for said in obstacles(wanted, Protocol.NVME, pages))


@pytest.mark.parametrize(
    ("wanted", "page"),
    [
        (Purge.FORMAT, controller(fna=3)),
        (Purge.FORMAT, controller(cmic=2)),  # it changes this namespace alone
        (Purge.SANITIZE, controller(sanicap=1)),
    ],
)
def test_an_only_namespace_may_be_purged(wanted: Purge, page: bytes) -> None:
    assert obstacles(wanted, Protocol.NVME, found(page, 1)) == []


def test_a_command_of_another_protocol_is_refused() -> None:
    pages = captured("qemu-ahci")

    assert obstacles(Purge.FORMAT, Protocol.ATA, pages) == ["its protocol (ata) has no format"]
    assert "no ATA security" in obstacles(Purge.ATA_ERASE, Protocol.ATA, pages)[0]
    assert (
        "its protocol (nvme) has no ata_erase" in obstacles(Purge.ATA_ERASE, Protocol.NVME, {})[0]
    )
    assert "block erase sanitize (ATA)" in obstacles(Purge.SANITIZE, Protocol.ATA, pages)[0]


def test_an_ata_sanitize_in_progress_is_seen_in_the_registers() -> None:
    sense = bytearray(22)
    sense[0], sense[8], sense[9], sense[12] = 0x72, 0x09, 12, 0x40

    assert ata.sanitizing(bytes(sense))
    assert not ata.sanitizing(bytes(22))
