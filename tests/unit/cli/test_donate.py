"""`donate`: what is given away, and that nothing in it names drive, host or user."""

import csv
import io
import json
import tarfile
from pathlib import Path

import pytest

from benchmarks import real_series
from ssdbench.cli import main
from ssdbench.engine.drivelogs import INDEX
from ssdbench.export.donation import donation
from ssdbench.model.finding import Code, Finding, Severity
from ssdbench.model.target import TargetKind
from ssdbench.report.read import StoredRun
from ssdbench.target import ata, nvme, scsi
from ssdbench.target.anonymous import blanked
from tests.support.builders import StoredRunBuilder, a_target, a_workload, with_found

SERIAL = "S4EVNX0R987654"
WWN = "0025385b91b0a4d2"
HOST = "db-master-17.example"
SECRETS = (SERIAL, WWN, HOST, "jane.doe", "/srv/nightly", "/dev/disk/by-id")


def swapped(text: str, size: int) -> bytes:
    raw = text.ljust(size).encode()
    return b"".join(raw[i + 1 : i + 2] + raw[i : i + 1] for i in range(0, size, 2))


def planted_pages() -> dict[str, bytes]:
    """Every kind of page that is read from a drive, with names wherever there is room."""
    identify = bytearray(512)
    identify[20:40] = swapped(SERIAL, 20)
    identify[54:94] = swapped("REAL SSD 960GB", 40)
    identify[216:224] = bytes.fromhex(WWN)
    identify[300:320] = swapped(SERIAL, 20)
    identify[510] = 0xA5
    identify[511] = -sum(identify) % 256
    smart = bytearray(512)
    smart[400:414] = SERIAL.encode()
    smart[2:14] = bytes([9, 0, 0, 100, 100, 0x34, 0x12, 0, 0, 0, 0, 0])
    smart[511] = -sum(smart) % 256
    controller = bytearray(4096)
    controller[4:24] = SERIAL.ljust(20).encode()
    controller[24:64] = b"REAL SSD 960GB".ljust(40)
    controller[768:1000] = f"nqn.2014-08.com.maker:{SERIAL}".ljust(232).encode()
    controller[3100:3114] = SERIAL.encode()
    namespace = bytearray(4096)
    namespace[0:8] = (1000).to_bytes(8, "little")
    namespace[104:120] = bytes(8) + bytes.fromhex(WWN)
    namespace[120:128] = bytes.fromhex(WWN)
    health = bytearray(512)
    health[5] = 7
    health[300:314] = SERIAL.encode()
    anywhere = f"{SERIAL} {HOST} jane.doe".encode()
    return {
        ata.IDENTIFY: bytes(identify),
        ata.SMART: bytes(smart),
        nvme.CONTROLLER: bytes(controller),
        nvme.NAMESPACE: bytes(namespace),
        nvme.SMART: bytes(health),
        nvme.DESCRIPTORS: b"\2\x10\0\0" + bytes.fromhex(WWN) * 2,
        nvme.ERRORS: anywhere,
        nvme.FIRMWARE: anywhere,
        nvme.RESERVATION: anywhere,
        scsi.SERIAL: b"\0\x80\0\x0e" + SERIAL.encode(),
        scsi.DEVICE_ID: b"\0\x83\0\x0c\1\3\0\x08" + bytes.fromhex(WWN),
        scsi.INQUIRY: b"\0" * 8 + b"MAKER   REAL SSD 960GB  0001" + SERIAL.encode(),
        scsi.LIMITS: bytes(64),
        "a page of tomorrow": anywhere,
    }


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A run on a real drive, with names planted in everything that a run stores."""
    path = tmp_path / "run"
    told = f"{SERIAL} on {HOST} by jane.doe"
    target = a_target(
        TargetKind.DRIVE,
        name=f"/dev/disk/by-id/nvme-REAL_SSD_{SERIAL}",
        node="/dev/nvme0n1",
        id=f"eui.{WWN}",
        model="REAL SSD 960GB",
        serial=SERIAL,
        facts={"world wide name": f"naa.{WWN}", "inquiry": told},
    )
    builder = StoredRunBuilder(path, target=target, repeats=3, measure_s=20)
    result = (
        builder.steady()
        .sweep(blocks=(4096,), reads=(0,), depths=(32,))
        .write(
            run_id=f"jane.doe-{SERIAL}",
        )
    )
    finding = Finding(code=Code.DISTURBED, severity=Severity.WARNS, message=told)
    stages = [stage.model_copy(update={"findings": (finding,)}) for stage in result.stages]
    stages[0] = with_found(stages[0], workload=a_workload())
    result = result.model_copy(
        update={
            "stages": tuple(stages),
            "findings": (finding,),
            "title": told,
            "profile_text": f"title: {told}\n# /srv/nightly\n",
            "host": {"hostname": HOST, "command line": told},
            "settings": ({"setting": "scheduler", "reason": told},),
        }
    )
    (path / "result.json").write_text(result.model_dump_json())
    for when in ("drive-before", "drive-after"):
        pages = planted_pages()
        (path / when).mkdir()
        listed = [{"name": n, "file": f"{i:02d}.bin"} for i, n in enumerate(pages)]
        (path / when / INDEX).write_text(json.dumps({"drive": WWN, "pages": listed}))
        for entry in listed:
            (path / when / entry["file"]).write_bytes(pages[entry["name"]])
    (path / "host-before.json").write_text(json.dumps({"hostname": HOST, "user": "jane.doe"}))
    return path


def unpacked(path: Path) -> dict[str, bytes]:
    with tarfile.open(path) as tar:
        members = tar.getmembers()
        assert all(m.uname == "" and m.gname == "" and m.mtime == 0 for m in members)
        files = {m.name: tar.extractfile(m) for m in members}
        return {name: file.read() for name, file in files.items() if file is not None}


def test_nothing_in_the_archive_names_drive_host_or_user(run: Path, tmp_path: Path) -> None:
    out = tmp_path / "given.tar.gz"

    assert main.run(["donate", str(run), "--output", str(out)]) == 0

    files = unpacked(out)
    whole = b"\n".join([*(name.encode() for name in files), *files.values()])
    for secret in SECRETS:
        raw = secret.encode()
        for form in (raw, raw.upper(), swapped(secret, len(secret) // 2 * 2), raw[:12]):
            assert form not in whole, secret
    assert bytes.fromhex(WWN) not in whole
    # The run itself is full of them: else the search would prove nothing.
    stored = b"".join(p.read_bytes() for p in run.rglob("*") if p.is_file())
    assert all(secret.encode() in stored for secret in SECRETS)


def test_what_is_given_is_worth_having(run: Path, tmp_path: Path) -> None:
    out = tmp_path / "given.tar.gz"
    assert main.run(["donate", str(run), "--output", str(out)]) == 0

    files = {name.removeprefix("ssdbench-donation/"): d for name, d in unpacked(out).items()}
    about = json.loads(files["about.json"])
    assert about["model"] == "REAL SSD 960GB"
    assert about["points"][0]["verdict"] == "VALIDATED"
    assert len(about["points"][0]["iops"]) == 3
    assert about["findings"] == ["disturbed"]
    repeats = [name for name in files if name.startswith("repeats/")]
    assert len(repeats) == 3
    rows = list(csv.DictReader(io.StringIO(files[repeats[0]].decode())))
    assert {row["counted"] for row in rows} == {"0", "1"} or {row["counted"] for row in rows} == {
        "1"
    }
    pages = {name for name in files if name.startswith("pages/before/")}
    assert len(pages) == 7  # of fourteen: the others may name anything


def test_its_series_are_read_by_the_judge(run: Path, tmp_path: Path) -> None:
    out = tmp_path / "given.tar.gz"
    assert main.run(["donate", str(run), "--output", str(out)]) == 0
    with tarfile.open(out) as tar:
        tar.extractall(tmp_path, filter="data")

    (series,) = real_series.recorded(tmp_path / "ssdbench-donation")

    assert series.drive == "REAL SSD 960GB"
    assert series.length_s == pytest.approx(7200, abs=2)
    assert float(series.series.rate[-600:].mean()) == pytest.approx(24.6e6, rel=0.02)


def test_blanked_pages_are_still_read_by_the_parsers() -> None:
    pages = {name: blanked(name, page) for name, page in planted_pages().items()}

    identify, smart = pages[ata.IDENTIFY], pages[ata.SMART]
    assert identify is not None
    assert ata.whole(identify)
    assert (ata.identify(identify).model, ata.identify(identify).serial) == (
        "REAL SSD 960GB",
        "BLANKED",
    )
    assert smart is not None
    assert sum(smart) % 256 == 0
    assert ata.smart_values(smart) == {9: 0x1234}
    controller = pages[nvme.CONTROLLER]
    assert controller is not None
    assert nvme.controller(controller).model == "REAL SSD 960GB"
    assert nvme.controller(controller).serial == "BLANKED"


def test_an_archive_that_would_hold_a_name_is_not_written(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The last look finds what blanking missed."""
    monkeypatch.setattr("ssdbench.export.donation.blanked", lambda name, page: page)
    out = tmp_path / "given.tar.gz"

    assert main.run(["donate", str(run), "--output", str(out)]) == 2
    assert not out.exists()


def test_a_simulated_drive_and_an_existing_file_are_refused(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "there.tar.gz").write_bytes(b"mine")
    assert main.run(["donate", str(run), "--output", str(tmp_path / "there.tar.gz")]) == 2
    assert (tmp_path / "there.tar.gz").read_bytes() == b"mine"
    StoredRunBuilder(tmp_path / "sim", repeats=3, measure_s=20).steady().write()
    assert main.run(["donate", str(tmp_path / "sim")]) == 2
    assert "simulated drive" in capsys.readouterr().err


def test_the_same_run_gives_the_same_archive(run: Path, tmp_path: Path) -> None:
    for name in ("a.tar.gz", "b.tar.gz"):
        assert main.run(["donate", str(run), "--output", str(tmp_path / name)]) == 0

    assert (tmp_path / "a.tar.gz").read_bytes() == (tmp_path / "b.tar.gz").read_bytes()
    assert donation(StoredRun.open(run))
