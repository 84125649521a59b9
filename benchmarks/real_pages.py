"""Run the parsers over pages of real drives that are not part of the repository.

    nox -s judge-the-judges -- --real DIRECTORY

Below DIRECTORY: files of skdump (`IDFY`, `SMDT`), hex files of sg3_utils (names with `vpd_dev_id`
or `vpd_di`), and archives of sysfs (`*.tar.xz`). The output has one line for each drive. Behind it
stands what cannot be right: a checksum, a capacity of 0, an unprintable model, two drives of one
host with one identity, a drive that is not recognized.
"""

import tarfile
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

from ssdbench.errors import SsdbenchError, UsageError
from ssdbench.host.sysfs import Sysfs
from ssdbench.model.target import TargetKind
from ssdbench.target import ata, scsi, surroundings
from ssdbench.target.evidence import Place, evidence, kind_of
from ssdbench.target.inspect import identities
from ssdbench.units import format_capacity

_TAG_BYTES = 4


def report(directory: Path) -> int:
    """Print what every page says; return how many cannot be right. Raises UsageError for none."""
    seen = wrong = 0
    for path in sorted(path for path in directory.rglob("*") if path.is_file()):
        for told, faults in _read(path):
            seen, wrong = seen + 1, wrong + bool(faults)
            print(f"  {path.name}: {told}" + (f"  WRONG: {'; '.join(faults)}" if faults else ""))
    if not seen:
        raise UsageError(f"{directory} has neither INDEX.csv nor pages of drives")
    return wrong


def _read(path: Path) -> Iterator[tuple[str, list[str]]]:
    if path.name.endswith(".tar.xz"):
        yield from _sysfs(path)
        return
    raw = path.read_bytes()
    if raw[:_TAG_BYTES] in (b"IDFY", b"SMDT"):
        yield _skdump(dict(skdump(raw)))
    elif path.suffix == ".hex" and ("vpd_dev_id" in path.name or "vpd_di" in path.name):
        name = scsi.world_wide_name(from_hex(raw.decode()))
        yield name or "no name of the unit", []


def skdump(raw: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Yield the parts of a file of skdump: a tag of four bytes, a size (big-endian), the data."""
    at = 0
    while at + 8 <= len(raw):
        size = int.from_bytes(raw[at + _TAG_BYTES : at + 8], "big")
        yield raw[at : at + _TAG_BYTES], raw[at + 8 : at + 8 + size]
        at += 8 + size


def from_hex(text: str) -> bytes:
    """Return the bytes of a hex file; `#` begins a comment."""
    return b"".join(bytes.fromhex(line.split("#")[0]) for line in text.splitlines())


def _skdump(parts: Mapping[bytes, bytes]) -> tuple[str, list[str]]:
    page, smart = parts.get(b"IDFY", b""), parts.get(b"SMDT", b"")
    said, celsius = ata.identify(page), ata.temperature(ata.smart_values(smart))
    size_bytes = said.sectors * said.logical_bytes
    faults = [
        text
        for true, text in (
            (not ata.whole(page), "IDENTIFY has a wrong checksum"),
            (bool(smart) and not ata.smart_whole(smart), "SMART data have a wrong checksum"),
            (not 1e9 < size_bytes < 1e14, "no such capacity"),
            (not said.model or not said.model.isprintable(), "no model"),
            (celsius is not None and not 5 <= celsius <= 80, "no such temperature"),
            (said.physical_bytes not in (512, 4096, 8192, 16384), "no such physical block"),
        )
        if true
    ]
    place = Place(size_bytes=size_bytes)
    seen = evidence(place, {}, {ata.IDENTIFY: page})
    if kind_of("sda", {}, seen, models=[said.model]) is not TargetKind.DRIVE:
        faults.append(f"not taken for one drive: {'; '.join((*seen.missing, *seen.volume))}")
    heat = "temperature unknown" if celsius is None else f"{celsius} °C"
    trim = "TRIM" if said.trim else "no TRIM"
    shown = f"{said.model}, {format_capacity(size_bytes)}, {trim}, {said.speed_most or 'no SATA'}"
    return f"{shown}, {heat}", faults


def _sysfs(path: Path) -> Iterator[tuple[str, list[str]]]:
    with tempfile.TemporaryDirectory() as name:
        with tarfile.open(path) as archive:
            archive.extractall(name, filter="tar")
        for block in sorted(Path(name).rglob("sys/block")):
            sysfs = Sysfs(block.parents[1])
            try:
                known = identities(sysfs=sysfs)
            except SsdbenchError as error:
                yield "sysfs", [error.message]
                continue
            kernels = surroundings.disks(sysfs)
            lost = [k for k in kernels if f"/dev/{k}" not in known.values()]
            faults = [f"{kernel} has the identity of another" for kernel in lost]
            yield f"{len(kernels)} disks: {', '.join(known)}", faults
