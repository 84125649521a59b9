"""Names with every letter that a program gives a meaning reach it whole, or are refused."""

import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from ssdbench.errors import UsageError
from ssdbench.fleet.inventory import Engine
from ssdbench.fleet.scheduler import require_safe
from ssdbench.fleet.transport import SshTransport
from ssdbench.host import command
from ssdbench.host.names import SPELLINGS, Reader, behind_env, written
from ssdbench.host.sysfs import Sysfs
from ssdbench.tuning.mounting import MountBackend

# Each letter that a shell, a list, a path or a job file knows.
LETTERS = [*" \t!\"#$%&'()*+,-.:;<=>?@[\\]^_`{|}~", "ü", "\udcff", "..", "a\\:b", "a\\", ",,"]


def test_every_reader_has_a_spelling_and_a_source() -> None:
    assert set(SPELLINGS) == set(Reader)
    assert all(spelling.source for spelling in SPELLINGS.values())


@pytest.mark.parametrize("letter", LETTERS)
def test_fio_opens_the_file_of_that_name_or_the_name_is_refused(
    letter: str, tmp_path: Path
) -> None:
    """Asked of fio itself: the file of that very name has other bytes afterwards."""
    path = tmp_path / f"a{letter}z"
    path.write_bytes(bytes(4096))
    others = [tmp_path / name for name in ("a", "z", f"a{letter}{letter}z")]
    for other in others:
        if other != path:
            other.write_bytes(bytes(4096))
    try:
        name = written(Reader.FIO_FILE, str(path))
    except UsageError:
        assert letter in ";#"
        return
    job = tmp_path / "job.fio"
    job.write_bytes(
        b"[j]\nioengine=psync\nrw=write\nsize=4k\nbs=4k\nallow_file_create=0\nfilename="
        + os.fsencode(name)
    )

    command.run(["fio", str(job)], timeout_s=60)

    assert path.read_bytes() != bytes(4096)
    assert all(other.read_bytes() == bytes(4096) for other in others if other != path)


@pytest.mark.parametrize(
    "name", ["$ncpus", "$pagesize", "$mb_memory", "${HOME}", "x\ny", " x", "x "]
)
@pytest.mark.parametrize("reader", [Reader.FIO, Reader.FIO_FILE])
def test_what_fio_would_calculate_replace_or_cut_is_refused(reader: Reader, name: str) -> None:
    with pytest.raises(UsageError, match="fio.* cannot be given the name"):
        written(reader, name)


def test_commas_of_a_name_do_not_end_an_option_of_qemu_or_virtiofsd() -> None:
    assert written(Reader.QEMU, "/a,filename=/b,,c=d:e") == "/a,,filename=/b,,,,c=d:e"
    assert written(Reader.VIRTIOFSD, "/a,b\\c") == "/a\\,b\\\\c"


@pytest.mark.parametrize("name", ["-oProxyCommand=x", "a b", "a;b", "a$(b)", "a`b`", "a\nb", "a'b"])
def test_an_address_that_ssh_or_its_proxy_command_would_misread_is_refused(name: str) -> None:
    with pytest.raises(UsageError, match="ssh cannot be given the name"):
        SshTransport().call(name, "true")


@pytest.mark.parametrize("name", ["root@h-1.example", "[fe80::1%eth0]", "10.0.0.1"])
def test_addresses_are_what_they_were(name: str) -> None:
    assert written(Reader.SSH, name) == name


@pytest.mark.parametrize("source", ["--bind", "-omode=777", "LABEL=root", "UUID=1-2"])
def test_mount_is_given_no_option_and_no_tag_in_place_of_a_device(source: str) -> None:
    with pytest.raises(UsageError, match="mount cannot be given the name"):
        MountBackend(Sysfs()).write("/run/ssdbench/x", f"ext4 {source}", "")


@pytest.mark.parametrize("address", ["tcp://127.0.0.1:1 --preload x", "tcp://127.0.0.1:1;x", "-x"])
def test_the_scheduler_of_dask_has_an_address_and_nothing_else(address: str) -> None:
    with pytest.raises(UsageError, match="dask cannot be given the name"):
        require_safe(Engine(scheduler=address))


def test_a_dollar_of_a_units_command_is_no_variable_of_the_manager() -> None:
    assert written(Reader.SYSTEMD, "/a/$HOME/${x}") == "/a/$$HOME/$${x}"


def test_a_program_whose_path_has_an_equals_sign_is_started_and_not_set(tmp_path: Path) -> None:
    program = tmp_path / "a=b" / "program"
    program.parent.mkdir()
    program.write_text('#!/bin/sh\necho "$X $1"\n')
    program.chmod(0o755)

    argv = ["env", "X=1", *behind_env([str(program), "two words"])]
    said = subprocess.run(argv, capture_output=True, text=True, check=True).stdout
    process = command.spawn(
        [str(program), "two"], stdout=tmp_path / "out", stderr=tmp_path / "err", env={"X": "1"}
    )

    assert said == "1 two words\n"
    assert process.wait(60) == 0
    assert (tmp_path / "out").read_text() == "1 two\n"


def test_a_remote_command_is_words_of_its_shell_whatever_is_in_them() -> None:
    word = "'\"$HOME`x`\\ ;&|\n*"
    said = subprocess.run(
        ["sh", "-c", shlex.join([sys.executable, "-c", "import sys; print(sys.argv[1])", word])],
        capture_output=True, text=True, check=True,
    ).stdout  # fmt: skip

    assert said == f"{word}\n"
