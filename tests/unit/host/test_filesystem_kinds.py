"""Which file systems a made-up kernel has."""

import os
from pathlib import Path

import pytest

from ssdbench.host.filesystems import FILE_SYSTEMS
from ssdbench.host.sysfs import Sysfs

MODULES = f"lib/modules/{os.uname().release}"
FILES = {
    "proc/filesystems": "nodev\ttmpfs\n\tbtrfs\n",
    f"{MODULES}/modules.alias": "alias fs-ext4 ext4\nalias fs-ext3 ext4\nalias fs-ext2 ext4\n",
    f"{MODULES}/modules.dep": "kernel/fs/xfs/xfs.ko.xz:\nkernel/fs/ext4/ext4.ko.xz:\n",
}


@pytest.mark.parametrize("name", FILE_SYSTEMS)
def test_a_file_system_is_known_built_in_by_its_module_or_by_the_alias_of_one(
    name: str, tmp_path: Path
) -> None:
    for file, text in FILES.items():
        (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / file).write_text(text)

    reason = FILE_SYSTEMS[name].lacking(Sysfs(tmp_path))

    is_lacking = reason == f"this kernel has no {name}"
    assert is_lacking == (name in ("f2fs", "nilfs2"))
