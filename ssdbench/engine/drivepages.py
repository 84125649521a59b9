"""The raw pages of a drive beside a run, before and after it, so that they can be decoded again.

One file a page, and `index.json` with names, sizes and checksums.
"""

import json
import re
from hashlib import sha256
from pathlib import Path

from ssdbench.errors import SsdbenchError
from ssdbench.host.files import make_directory, write_atomic
from ssdbench.host.sysfs import Sysfs
from ssdbench.model.target import TargetInfo
from ssdbench.target import pages
from ssdbench.target.inspect import kernel_name

INDEX = "index.json"


def store_pages(info: TargetInfo, directory: Path) -> None:
    """Read every page of a drive and keep the bytes; nothing for what has no pages.

    A drive that does not answer any more is said so in the index: that is evidence too. Raises
    HostLacks when the directory cannot be written.
    """
    kernel = kernel_name(info)
    if info.simulated or not kernel:
        return
    sysfs, fault, read = Sysfs(), "", pages.Pages()
    try:
        read = pages.read(kernel, Path(info.node), sysfs=sysfs)
    except SsdbenchError as error:
        fault = error.message
    if not read and not fault:
        return
    make_directory(directory)
    listed = [_stored(name, page, directory) for name, page in read.items()]
    index = {"drive": info.id, "pages": listed, "fault": fault}
    write_atomic(directory / INDEX, json.dumps(index, indent=1) + "\n")


def _stored(name: str, page: bytes, directory: Path) -> dict[str, object]:
    file = re.sub(r"[^a-z0-9]+", "-", name.lower()) + ".bin"
    write_atomic(directory / file, page)
    return {
        "name": name,
        "file": file,
        "size_bytes": len(page),
        "sha256": sha256(page).hexdigest(),
    }
