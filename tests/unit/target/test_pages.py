"""Pages of drives: captured from emulated ones, and built by the letter of the specifications."""

import json
from pathlib import Path

import pytest

from ssdbench.errors import DeviceError
from ssdbench.host import nvme as bus
from ssdbench.host import scsi as scsi_bus
from ssdbench.target import ata, nvme, scsi
from ssdbench.target.inspect import page_facts
from ssdbench.target.pages import _nvme, reservation

CAPTURED = Path(__file__).parents[2] / "data" / "pages"


def captured(name: str) -> dict[str, bytes]:
    stored = json.loads((CAPTURED / f"{name}.json").read_text())["pages"]
    return {k: bytes.fromhex(p["hex"]).ljust(p["size"], b"\0") for k, p in stored.items()}


def page(size: int, **fields: tuple[int, bytes]) -> bytes:
    """Zeros with fields at their offsets."""
    built = bytearray(size)
    for offset, value in fields.values():
        built[offset : offset + len(value)] = value
    return bytes(built)


def test_a_captured_nvme_drive_tells_its_formats_and_health() -> None:
    pages = captured("qemu-nvme")

    controller, namespace = (
        nvme.controller(pages[nvme.CONTROLLER]),
        nvme.namespace(pages[nvme.NAMESPACE]),
    )

    assert (controller.model, controller.serial) == ("QEMU NVMe Ctrl", "SSDBENCH-LAB-0")
    assert controller.can_format
    assert namespace.size_blocks * namespace.format[0] == 64 << 20
    assert len(namespace.formats) == 8
    facts = page_facts(pages)
    assert facts["temperature"] == "50 °C"
    assert facts["write cache"] == "on"
    assert facts["protection"] == "none"


def test_a_captured_namespace_with_protection_and_one_that_is_shared() -> None:
    protected = nvme.namespace(captured("qemu-nvme-protected")[nvme.NAMESPACE])
    shared = captured("qemu-nvme-shared")

    assert (protected.protection, protected.format) == (1, (512, 8))
    assert nvme.namespace(shared[nvme.NAMESPACE]).shared
    assert nvme.controllers(shared[nvme.ATTACHED]) == [0, 1]
    assert nvme.namespaces(shared[nvme.SIBLINGS]) == [1, 2]


def test_a_captured_sata_drive_tells_itself_twice_alike() -> None:
    pages = captured("qemu-ahci")

    said = ata.identify(pages[ata.IDENTIFY])

    assert ata.whole(pages[ata.IDENTIFY])
    assert said.serial == "SSDBENCH-LAB-1" == scsi.serial(pages[scsi.SERIAL])
    assert said.sectors * said.logical_bytes == 64 << 20
    assert scsi.cache_on(pages[scsi.CACHING]) is said.cache_on is True


def test_a_captured_scsi_drive_is_known_by_its_world_wide_name() -> None:
    assert scsi.world_wide_name(captured("qemu-scsi-wwn")[scsi.DEVICE_ID]) == "naa.5000c50012345678"
    assert scsi.world_wide_name(captured("qemu-scsi")[scsi.DEVICE_ID]) == ""


def test_capacity_and_capabilities_of_an_nvme_controller_by_the_specification() -> None:
    built = page(
        4096,
        serial=(4, b"S4EVNX0R123456      "),
        cmic=(76, b"\x02"),
        ctratt=(96, (1 << 19).to_bytes(4, "little")),
        oacs=(256, b"\x17\x00"),
        npss=(263, b"\x01"),
        apsta=(265, b"\x01"),
        hmpre=(272, (16384).to_bytes(4, "little")),
        total=(280, (1_920_383_410_176).to_bytes(16, "little")),
        free=(296, (960_000_000_000).to_bytes(16, "little")),
        sanicap=(328, b"\x03\0\0\0"),
        oncs=(520, b"\x5f\x00"),
        fna=(524, b"\x07"),
        vwc=(525, b"\x01"),
        awupf=(528, b"\x1f\x00"),
        ps0=(2048, b"\x84\x03\0\0"),
        ps1=(2080, b"\x32\x00\0\x03"),
    )

    said = nvme.controller(built)

    assert said.serial == "S4EVNX0R123456"
    assert said.shared_subsystem and said.fdp and said.security and said.apst
    assert said.formats_all and said.erases_all and said.can_crypto_erase
    assert said.sanitizes == {"crypto", "block"}
    assert (said.total_bytes, said.unallocated_bytes) == (1_920_383_410_176, 960_000_000_000)
    assert said.memory_wanted_bytes == 64 << 20
    assert said.atomic_blocks == 32  # AWUPF counts from zero
    assert said.power_states == ("9 W", "0.005 W (not operational)")


def test_names_of_a_namespace_by_the_specification() -> None:
    formats = b"\0\0\x09\0" + b"\x08\0\x0c\0"
    built = page(
        4096,
        nlbaf=(25, b"\x01"),
        flbas=(26, b"\x11"),
        dps=(29, b"\x0a"),
        nmic=(30, b"\x01"),
        nsattr=(99, b"\x01"),
        nguid=(104, bytes(range(1, 17))),
        eui=(120, bytes.fromhex("0025385b91b0a4d2")),
        formats=(128, formats),
    )

    said = nvme.namespace(built)

    assert said.format == (4096, 8)
    assert said.extended_metadata and said.shared and said.write_protected
    assert (said.protection, said.protection_first) == (2, True)
    assert said.nguid == "0102030405060708090a0b0c0d0e0f10"
    assert said.eui64 == "0025385b91b0a4d2"


def test_a_namespace_tells_the_sizes_that_it_wants_to_be_written_in() -> None:
    fields = {
        "optperf": (24, b"\x10"),
        "noiob": (46, (256).to_bytes(2, "little")),
        "npwg": (64, (3).to_bytes(2, "little")),
        "npwa": (66, (0).to_bytes(2, "little")),
        "nows": (72, (255).to_bytes(2, "little")),
        "format": (128, b"\0\0\x0c\0"),
    }
    silent = {**fields, "optperf": (24, b"\0")}

    said = nvme.write_sizes({nvme.NAMESPACE: page(4096, **fields)})

    assert said == {"NOIOB": 1 << 20, "NPWG": 16384, "NPWA": 4096, "NOWS": 1 << 20}
    assert nvme.write_sizes({nvme.NAMESPACE: page(4096, **silent)}) == {"NOIOB": 1 << 20}
    assert nvme.write_sizes({}) == {}


def test_health_in_units_that_people_read() -> None:
    built = page(
        512,
        warning=(0, b"\x04"),
        temperature=(1, (273 + 41).to_bytes(2, "little")),
        spare=(3, b"\x62\x0a\x07"),
        written=(48, (2_000_000).to_bytes(16, "little")),
        hours=(128, (4711).to_bytes(16, "little")),
    )

    facts = nvme.smart_facts(built)

    assert facts["temperature"] == "41 °C"
    assert facts["data written"] == "1.024 TB"
    assert facts["percentage used"] == "7 %"
    assert facts["power-on hours"] == "4711"


def test_an_ocp_page_counts_only_with_its_guid() -> None:
    written = (0, (5 * 10**12).to_bytes(16, "little"))

    assert nvme.ocp_facts(page(512, written=written)) == {}
    facts = nvme.ocp_facts(page(512, written=written, guid=(496, nvme.OCP_GUID)))
    assert facts["OCP flash written"] == "5 TB"


def test_ocp_pages_are_decoded_where_nvme_cli_has_their_fields() -> None:
    fields = {
        "xor": (48, b"\x03"), "reads": (56, b"\x02"), "soft": (64, b"\x09"), "pcie": (104, b"\x05"),
        "free": (120, b"\x37"), "health": (128, b"\x64"), "dies": (220, b"\x01"),
        "guid": (496, nvme.OCP_GUID),
    }  # fmt: skip
    old, new = page(512, **fields), page(512, **fields, version=(494, b"\x05"))

    assert nvme.ocp_facts(new) | {"OCP XOR recoveries": "3"} == nvme.ocp_facts(new)
    assert nvme.ocp_facts(new)["OCP free blocks, percent"] == "55"
    assert nvme.ocp_facts(new)["OCP media dies offline"] == "1"
    assert "OCP media dies offline" not in nvme.ocp_facts(old)
    errors = nvme.ocp_errors(new)
    assert (errors["OCP uncorrectable reads"], errors["OCP PCIe correctable errors"]) == (2, 5)
    assert "OCP soft ECC errors" not in errors
    assert nvme.ocp_errors(bytes(512)) == {}
    recovery = page(
        512,
        panic=(4, b"\xef\xbe"),
        count=(31, b"\x02"),
        guid=(496, bytes.fromhex("44d93121fe3034aeab4dfd3dba83195a")),
    )
    lacks = page(
        4096, count=(0, b"\x02"), first=(16, b"SEC-1"), second=(32, b"LABL-4"),
        guid=(4080, bytes.fromhex("2f729c0e99232cbb634832d0b798bbc7")),
    )  # fmt: skip
    told = nvme.facts({nvme.RECOVERY: recovery, nvme.UNSUPPORTED: lacks})
    assert told["OCP panics"] == "2, last 0xbeef"
    assert told["OCP requirements that it does not meet"] == "SEC-1, LABL-4"
    assert nvme.facts({nvme.RECOVERY: bytes(512), nvme.UNSUPPORTED: bytes(4096)}) == {}


@pytest.mark.parametrize(
    ("words", "locked", "enabled", "frozen"),
    [(0x0001, False, False, False), (0x0007, True, True, False), (0x000B, False, True, True)],
)
def test_ata_security_by_the_specification(
    words: int, *, locked: bool, enabled: bool, frozen: bool
) -> None:
    said = ata.identify(page(512, security=(256, words.to_bytes(2, "little"))))

    assert (said.security_locked, said.security_enabled, said.security_frozen) == (
        locked,
        enabled,
        frozen,
    )


def test_a_hidden_area_of_an_ata_drive_is_counted() -> None:
    sense = bytearray(22)
    sense[0], sense[8], sense[9] = 0x72, 0x09, 12
    sense[15], sense[17], sense[19] = 0xFF, 0xFF, 0x01  # 0x1ffff

    assert ata.native_max(bytes(sense)) == 0x1FFFF
    assert ata.native_max(b"") is None


@pytest.mark.parametrize(("flags", "locked"), [(0b111, True), (0b011, False), (0b101, False)])
def test_opal_is_locked_when_locking_is_on_and_locked(flags: int, *, locked: bool) -> None:
    features = b"\x00\x01\x10\x0c" + bytes(12) + b"\x00\x02\x10\x0c" + bytes([flags]) + bytes(11)
    header = (44 + len(features)).to_bytes(4, "big").ljust(48, b"\0")

    assert nvme.opal_locked(header + features) is locked


def test_reservations_are_seen() -> None:
    assert "type 1" in nvme.reserved_by(b"\x01\0\0\0\x01\x02\0".ljust(64, b"\0"))
    assert nvme.reserved_by(bytes(64)) == ""
    assert scsi.reserved(b"\0\0\0\x01\0\0\0\x10".ljust(24, b"\0"))
    assert not scsi.reserved(bytes(8))


class Unit(scsi_bus.Scsi):
    """A SCSI unit that answers with (status, sense key) first, and then as one that is free."""

    def __init__(self, *refusals: tuple[int, int]) -> None:
        super().__init__(-1)
        self.refusals = list(refusals)

    def command(self, block: bytes, *, reads_bytes: int = 0, **_options: object) -> scsi_bus.Reply:
        assert (block[:2], reads_bytes > 0) == (b"\x5e\x01", True)
        if self.refusals:
            status, key = self.refusals.pop(0)
            raise scsi_bus.ScsiRefused(block[0], status, bytes([0x70, 0, key, *bytes(15)]))
        return scsi_bus.Reply(bytes(8), b"", 0)


@pytest.mark.parametrize(
    ("refusals", "pages"),
    [
        ([], {scsi.RESERVATION: bytes(8)}),
        ([(2, 6), (2, 6)], {scsi.RESERVATION: bytes(8)}),  # it was reset, and says so first
        ([(0x18, 0)], {scsi.CONFLICT: b"\x18"}),
        ([(2, 5)], {}),  # it knows no reservations
    ],
)
def test_what_a_unit_answers_of_its_reservation_is_kept(
    refusals: list[tuple[int, int]], pages: dict[str, bytes]
) -> None:
    assert reservation(Unit(*refusals)) == pages


@pytest.mark.parametrize("refusals", [[(2, 4)], [(8, 0)], [(2, 6)] * 9])
def test_a_unit_that_does_not_answer_is_never_taken_for_free(
    refusals: list[tuple[int, int]],
) -> None:
    with pytest.raises(DeviceError):
        reservation(Unit(*refusals))


@pytest.mark.parametrize("length", range(0, 100, 7))
def test_a_page_that_was_cut_short_never_becomes_a_wrong_name(length: int) -> None:
    page83 = captured("qemu-scsi-wwn")[scsi.DEVICE_ID]

    assert scsi.world_wide_name(page83[:length]) in ("", "naa.5000c50012345678")


# What the issue asks of a drive's identity, by the pages of drives that were written by hand.
TOLD = {
    "handmade-nvme-datacentre": {
        "NVM capacity": "3.841 TB",
        "unallocated NVM capacity": "960.2 GB",
        "namespaces of the controller": "1, 2",
        "LBA format": "1: 512 bytes, 8 bytes of metadata",
        "LBA formats": "512+0, 512+8, 4096+0, 4096+64",
        "protection": "type 1 in the first bytes",
        "power state": "1",
        "power states": "25 W, 18 W, 0.005 W (not operational)",
        "APST now": "off",
        "write cache": "on",
        "flexible data placement now": "on",
        "temperature": "47 °C",
        "OCP flash written": "11 TB",
        "firmware slots": "1: HM1A0001, 2: HM1A0000",
        "last sanitize": "completed",
    },
    "handmade-nvme-client": {
        "unallocated NVM capacity": "0 B",
        "host memory buffer wanted": "67.11 MB",
        "host memory buffer": "on",
        "write cache": "off",
        "APST now": "on",
        "flexible data placement": "not supported",
        "protection": "none",
        "critical warning": "0x02",
        "percentage used": "91 %",
    },
    "handmade-sata": {
        "host protected area": "1000000 sectors",
        "beyond the accessible max address": "2000000 sectors",
        "write cache": "on",
        "ATA security": "off, frozen",
        "link speed": "6 Gb/s of 6 Gb/s",
        "sanitize": "block, crypto",
        "queue depth": "32",
        "TRIM": "supported",
        "temperature": "36 °C",
        "SMART 241": "123456789",
    },
    "handmade-sas": {
        "inquiry": "HANDMADE SAS SSD 1.6TB SS4D",
        "world wide name": "naa.5000c500a1b2c3d4",
        "protection": "type 2",
        "write cache": "off",
        "medium": "solid state",
        "temperature": "39 °C",
        "percentage used": "5 %",
    },
}


@pytest.mark.parametrize("drive", TOLD)
def test_a_drive_tells_what_its_identity_needs(drive: str) -> None:
    facts = page_facts(captured(drive))

    assert {name: facts.get(name) for name in TOLD[drive]} == TOLD[drive]


def test_another_vendors_page_under_the_number_of_ocp_says_nothing() -> None:
    assert not [name for name in page_facts(captured("handmade-nvme-client")) if "OCP" in name]


@pytest.mark.parametrize("drive", [*TOLD, "qemu-nvme", "qemu-ahci", "qemu-scsi-wwn"])
@pytest.mark.parametrize("keep", [0, 1, 5, 40, 300])
def test_pages_that_are_cut_short_are_no_crash(drive: str, keep: int) -> None:
    cut = {name: page[:keep] for name, page in captured(drive).items()}

    try:
        page_facts(cut)
    except IndexError as error:
        pytest.fail(f"{drive}, {keep} bytes: {error}")


def test_what_host_and_drive_wrote_is_read_from_the_health_log_and_ocps() -> None:
    health = page(512, written=(48, (2_000_000).to_bytes(16, "little")))
    flash = (0, (3 * 10**12).to_bytes(16, "little"))
    ocp = page(512, written=flash, guid=(496, nvme.OCP_GUID))

    found = nvme.flash_written(health, ocp)

    assert found is not None
    assert (found.host_bytes, found.media_bytes) == (1_024_000_000_000, 3 * 10**12)
    assert nvme.flash_written(health, page(512, written=flash)) is None  # another vendor's C0h


def test_throttling_is_counted_where_the_specifications_put_it() -> None:
    health = page(
        512, warning=(192, b"\x07"), critical=(196, b"\x02"), first=(216, b"\x2c\x01"),
        second=(220, b"\x05"), first_s=(224, b"\x10\x27"), second_s=(228, b"\x09"),
    )  # fmt: skip
    ocp = page(512, events=(96, b"\x0b"), guid=(496, nvme.OCP_GUID))

    assert list(nvme.throttle_counters(health, ocp).values()) == [7, 2, 300, 5, 10_000, 9, 11]
    assert "thermal throttling events" not in nvme.throttle_counters(health, page(512))
    assert nvme.throttle_counters(b"") == {}


class Answers:
    """A controller that has its identity and vendor logs, and refuses everything else."""

    def __init__(self, guid: bytes) -> None:
        self.found = captured("handmade-nvme-datacentre")
        self.health = self.found[nvme.OCP][:496] + guid
        self.asked: list[int] = []

    def nsid(self) -> int:
        return 1

    def identify(self, structure: int, *, nsid: int = 0) -> bytes:
        if structure not in (0, 1):
            raise DeviceError("it has no such list")
        return self.found[nvme.CONTROLLER if structure else nvme.NAMESPACE]

    def log_page(self, page: int, size_bytes: int) -> bytes:
        self.asked.append(page)
        return self.health if page == 0xC0 else bytes([page]) * size_bytes

    def feature(self, *_: object, **__: object) -> bus.Reply:
        raise DeviceError("it has no features")

    def admin(self, command: bus.Command) -> bus.Reply:
        raise bus.NvmeRefused(command.opcode, 0x4002)

    def io(self, command: bus.Command) -> bus.Reply:
        return bus.Reply(bytes(command.reads_bytes), 0)


def test_all_logs_of_an_ocp_drive_are_kept_raw_and_another_vendors_are_not_asked_for() -> None:
    ocp, other = Answers(nvme.OCP_GUID), Answers(bytes(16))

    kept = _nvme(ocp)  # type: ignore[arg-type]
    _nvme(other)  # type: ignore[arg-type]

    assert {name: kept[name] for name in nvme.OCP_LOGS} == {
        name: bytes([page]) * size for name, (page, size) in nvme.OCP_LOGS.items()
    }
    assert not {0xC1, 0xC2, 0xC3, 0xC4, 0xC5} & set(other.asked)


def test_a_drive_that_does_not_answer_whether_it_is_locked_is_never_taken_for_open() -> None:
    class Mute(Answers):
        def admin(self, command: bus.Command) -> bus.Reply:
            raise DeviceError("it does not answer")

    assert nvme.controller(Mute(bytes(16)).found[nvme.CONTROLLER]).security
    with pytest.raises(DeviceError, match="does not answer"):
        _nvme(Mute(bytes(16)))  # type: ignore[arg-type]
    assert nvme.SECURITY not in _nvme(Answers(bytes(16)))  # type: ignore[arg-type]
