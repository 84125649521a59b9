"""The block-size section beside what else the run knows of the write buffer."""

from pathlib import Path

from ssdbench.model.inside import BlockSizeFound
from ssdbench.report.view.inside import buffer
from ssdbench.units import KIB
from tests.support.builders import a_small_run, a_target


def test_the_section_never_speaks_of_another_buffer_than_the_findings(tmp_path: Path) -> None:
    result = a_small_run(tmp_path)
    known = result.model_copy(update={"target": a_target(write_buffer_bytes=320 * KIB)})
    open_ = result.model_copy(update={"target": a_target(write_buffer_bytes=0)})
    told = "write buffer or open superblock of 80 KiB: peaks after every 20 writes"
    part = BlockSizeFound(buffer=told, buffer_bytes=80 * KIB)
    about = BlockSizeFound(buffer="80 KiB to 1 MiB", buffer_most_bytes=1024 * KIB)
    none = BlockSizeFound(buffer="no sign of a buffer")

    assert buffer(known, part).startswith("not the write buffer, which is 320 KiB")
    assert "80 KiB" in buffer(known, part)
    assert (
        buffer(known, none)
        == "no sign of a buffer; other measurements or the model give a buffer of 320 KiB"
    )
    assert buffer(known, about).endswith("other measurements or the model give a buffer of 320 KiB")
    assert buffer(open_, part) == told
    assert buffer(open_, about) == "80 KiB to 1 MiB"
    assert buffer(open_, none) == "no sign of a buffer"
