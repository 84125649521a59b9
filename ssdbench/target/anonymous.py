"""Remove from a drive's pages the bytes that identify the single drive; no I/O.

Only bytes of the listed kinds are kept. Vendor-specific areas are set to zero, because they may
identify the drive.
"""

from collections.abc import Callable

from ssdbench.target import ata, nvme, scsi

BLANK = b"BLANKED"

# (offset, size) of bytes that identify the single drive, or may do so.
_ATA_VENDOR = ((14, 6), (224, 8), (258, 62), (352, 60))  # words 7-9, 112-115, 129-159, 176-205
_ATA_SERIAL, _ATA_WWN = (20, 20), (216, 8)
_SMART_VENDOR = (386, 125)
_NVME_SERIAL = (4, 20)
_NVME_CONTROLLER = ((112, 16), (768, 256), (3072, 1024))  # FRU GUID, subsystem NQN, vendor's
_NVME_NAMESPACE = ((104, 24), (384, 3712))  # NGUID and EUI-64, vendor's
_NVME_HEALTH = ((232, 280),)
_INQUIRY_BYTES = 36  # vendor, product, revision; vendor-specific bytes follow
_AS_IT_IS = (
    nvme.OCP,
    nvme.POWER,
    nvme.CACHE,
    scsi.LIMITS,
    scsi.CHARACTERISTICS,
    scsi.PROVISIONING,
    scsi.CAPACITY,
    scsi.CACHING,
    scsi.TEMPERATURE,
    scsi.ENDURANCE,
)


def blanked(name: str, page: bytes) -> bytes | None:
    """Return a page, in which bytes that could identify the single drive are overwritten.

    Bytes about the drive's model and its wear are kept. The result is None for a page that must not
    be shown.
    """
    if name in _AS_IT_IS:
        return page
    work = _BLANKING.get(name)
    return None if work is None else work(bytearray(page))


def _zeros(page: bytearray, *areas: tuple[int, int]) -> bytearray:
    for at, size in areas:
        page[at : at + size] = bytes(len(page[at : at + size]))
    return page


def _text(page: bytearray, area: tuple[int, int], *, swapped: bool = False) -> None:
    at, size = area
    text = BLANK.ljust(size)
    if swapped:  # ATA stores the first of two characters in the high byte
        text = b"".join(text[i + 1 : i + 2] + text[i : i + 1] for i in range(0, size, 2))
    page[at : at + size] = text[: len(page[at : at + size])]


def _checksum(page: bytearray) -> bytes:
    if len(page) == 512:
        page[511] = 0
        page[511] = -sum(page) % 256
    return bytes(page)


def _identify(page: bytearray) -> bytes:
    _text(_zeros(page, *_ATA_VENDOR, _ATA_WWN), _ATA_SERIAL, swapped=True)
    return _checksum(page) if page[510:511] == b"\xa5" else bytes(page)


def _smart(page: bytearray) -> bytes:
    return _checksum(_zeros(page, _SMART_VENDOR))


def _controller(page: bytearray) -> bytes:
    _text(_zeros(page, *_NVME_CONTROLLER), _NVME_SERIAL)
    return bytes(page)


_BLANKING: dict[str, Callable[[bytearray], bytes]] = {
    ata.IDENTIFY: _identify,
    ata.SMART: _smart,
    nvme.CONTROLLER: _controller,
    nvme.NAMESPACE: lambda page: bytes(_zeros(page, *_NVME_NAMESPACE)),
    nvme.SMART: lambda page: bytes(_zeros(page, *_NVME_HEALTH)),
    scsi.INQUIRY: lambda page: bytes(page[:_INQUIRY_BYTES]),
}
