"""Bad input at the command line: one sentence, what to do, the right exit code, nothing made."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from ssdbench.cli import main
from tests.support.builders import a_small_run

GOOD = """\
target: sim:x25m-g2-160,capacity=1GiB
precondition:
  - {pattern: sequential, block: 128KiB, fill: 1}
measure:
  - sweep: {block: 4KiB, read: 0}
"""

Refusal = Callable[..., str]


@pytest.fixture
def refused(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> Refusal:
    """Runs a profile that must be refused; returns what is said. Nothing may be made or lost."""

    def run(text: str, *, code: int = 2) -> str:
        profile = tmp_path / "p.yaml"
        profile.write_text(text)
        before = sorted(tmp_path.iterdir())
        assert main.run(["run", str(profile), "--output", str(tmp_path / "run")]) == code
        assert sorted(tmp_path.iterdir()) == before
        assert profile.read_text() == text
        out, said = capfd.readouterr()
        assert not out
        assert "Traceback" not in said
        return said.replace(f"{tmp_path}/", "")

    return run


@pytest.mark.parametrize(
    ("text", "says"),
    [
        pytest.param(GOOD + "colour: red\n", "p.yaml:6:1: unknown key 'colour'", id="unknown-key"),
        pytest.param(GOOD + "widow: 5m\n", "did you mean 'window'?", id="misspelt-key"),
        pytest.param(GOOD + "window: 5 ells\n", "p.yaml:6:9: window: a duration", id="wrong-unit"),
        pytest.param(GOOD + "window: 5\n", "p.yaml:6:9: window: a duration", id="no-unit"),
        pytest.param(
            GOOD + "seed: 1\nseed: 2\n",
            "p.yaml:7:1: duplicate key 'seed' (first given in line 6)",
            id="duplicate-key",
        ),
        pytest.param(
            GOOD + "  - span: {spans: [150%]}\n", "p.yaml:6:20: measure[1].span.spans", id="share"
        ),
        pytest.param(
            GOOD + "  - span: {spans: [1MiB, 2TiB]}\n",
            "p.yaml:6:26: measure[1].span.spans[1]: a span of 2TiB is larger than sim:x25m-g2-160",
            id="span-beyond-the-drive",
        ),
        pytest.param(
            GOOD.replace("read: 0", "span: 2TiB"), "a span of 2TiB is larger", id="sweep-beyond"
        ),
        pytest.param(
            GOOD + "  - span: {block: 64KiB, spans: [0.0001%]}\n",
            "p.yaml:6:34: measure[1].span.spans[0]: a block of 64 KiB does not fit",
            id="span-below-a-block",
        ),
        pytest.param(
            GOOD.replace("block: 4KiB", "block: [4KiB, 256]"),
            "p.yaml:5:27: measure[0].sweep.block[1]: requests of 256 B are not a multiple of the "
            "drive's logical block of 512 B",
            id="below-the-logical-block",
        ),
        pytest.param(
            GOOD + "steady: {workload: {block: 100}}\n",
            "p.yaml:6:28: steady.workload.block: requests of 100 B",
            id="warm-up-below-the-logical-block",
        ),
        pytest.param(
            GOOD.replace("128KiB", "100"),
            "p.yaml:3:34: precondition[0].block: requests of 100 B",
            id="fill-below-the-logical-block",
        ),
        pytest.param(GOOD + "window: [\n", "p.yaml:7:1: not YAML", id="no-yaml"),
        pytest.param("", "p.yaml:1:1: the profile is empty", id="empty"),
        pytest.param("- 4KiB\n", "p.yaml:1:1: must be keys with values", id="a-list"),
        pytest.param(GOOD + "\tseed: 1\n", "YAML does not allow tabs", id="tab"),
        *(
            pytest.param(GOOD + text, f"p.yaml:6:{says}", id=text.split("{")[-1].strip("}\n"))
            for text, says in (
                ("plan: {demand_iops: 0}\n", "21: plan.demand_iops: must be above 0"),
                ("plan: {demand_iops: -5}\n", "21: plan.demand_iops: must be above 0"),
                ("plan: {demand_iops: .nan}\n", "21: plan.demand_iops: must be a finite number"),
                ("plan: {demand_iops: 1e300}\n", "21: plan.demand_iops: must be at most 1e+12"),
                ("plan: {growth: 9999999%}\n", "16: plan.growth: a percentage is at most"),
                (f"plan: {{growth: {'9' * 400}%}}\n", "16: plan.growth: a percentage is at most"),
                ("plan: {endurance_tb: 1e308}\n", "22: plan.endurance_tb: must be at most 1e+12"),
                ("plan: {failure_reserve: 99999999999}\n", "25: plan.failure_reserve: must be at"),
                ("steady: {max_fills: 1e300}\n", "21: steady.max_fills: must be at most 1e+12"),
                ("steady: {rule: always}\n", "16: steady.rule: must be one of pss, pss-paranoid"),
                ("repeats: 99999999999\n", "10: repeats: must be at most 10000"),
                (f"window: {'9' * 400}h\n", "9: window: a duration is at most 100 years"),
                ("  - sweep: {numjobs: 9999}\n", "22: measure[1].sweep.numjobs"),
                ("  - sweep: {iodepth: 99999}\n", "22: measure[1].sweep.iodepth"),
                ("  - rate: {percentile: p0}\n", "24: measure[1].rate.percentile: must be one of"),
                ("  - rate: {percentile: p100}\n", "24: measure[1].rate.percentile: must be one"),
                ("  - rate: {percentile: abc}\n", "24: measure[1].rate.percentile: must be one of"),
                ("  - rate: {limit: 0s}\n", "19: measure[1].rate.limit: a duration must be longer"),
                ("  - pts: {scale: 0}\n", "18: measure[1].pts.scale: must be above 0"),
            )
        ),
        pytest.param(
            "target: sim:x25m-g2-160\nmeasure: []\n",
            "p.yaml:2:10: measure: must be at least one",
            id="nothing-to-measure",
        ),
    ],
)
def test_a_wrong_profile_is_refused_where_it_is_wrong(
    refused: Refusal, text: str, says: str
) -> None:
    assert says in refused(text)


def test_every_mistake_is_told_in_one_pass_in_the_order_of_the_file(refused: Refusal) -> None:
    said = refused(GOOD.replace("block: 4KiB", "block: [100, 200]") + "  - span: {spans: 9TiB}\n")

    places = [line.split(": ")[0] for line in said.splitlines() if line.startswith("p.yaml:")]
    assert places == ["p.yaml:5:21", "p.yaml:5:26", "p.yaml:6:19"]


def test_where_possible_leaves_out_what_the_drive_cannot_serve(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    profile = tmp_path / "p.yaml"
    profile.write_text(GOOD.replace("block: 4KiB", "where_possible: true, block: [256, 4KiB]"))

    assert main.run(["plan", str(profile)]) == 0
    assert "10 x 4 KiB random write" in capfd.readouterr().out


@pytest.mark.parametrize(
    ("target", "code", "says"),
    [
        pytest.param("/dev/no-such-drive", 2, "there is no device /dev/no-such-drive", id="none"),
        pytest.param("{}", 2, "is a directory", id="directory"),
        pytest.param("{}/none.img", 2, "none.img", id="no-file"),
        pytest.param("sim:no-such-model", 2, "no-such-model", id="no-model"),
        pytest.param("/dev/null", 3, "a character device", id="character-device"),
    ],
)
def test_what_is_no_target_is_said_with_a_way_out(
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
    target: str,
    code: int,
    says: str,
) -> None:
    name = target.format(tmp_path)
    arguments = ["run", "quick", "--target", name, "--output", str(tmp_path / "run")]

    assert main.run(arguments) == code
    said = capfd.readouterr().err
    assert says in said
    assert "hint: " in said
    assert not (tmp_path / "run").exists()


def _program(directory: Path, text: str) -> None:
    directory.mkdir()
    path = directory / "fio"
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)


@pytest.mark.parametrize(
    ("program", "says"),
    [
        pytest.param(None, "fio is not installed", id="missing"),
        pytest.param("echo fio-3.16", "fio 3.16 is too old", id="too-old"),
        pytest.param("echo I am the other fio", "is not fio", id="another-program"),
        pytest.param(
            '[ "$1" = --version ] && echo fio-3.36 || echo "Available IO engines:"',
            "built without its nbd engine",
            id="without-the-engine",
        ),
    ],
)
def test_without_a_fit_fio_nothing_is_begun(
    refused: Refusal,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    program: str | None,
    says: str,
) -> None:
    place = tmp_path / "programs"
    place.mkdir() if program is None else _program(place, program)
    monkeypatch.setenv("PATH", f"{place}")

    said = refused(GOOD, code=4)

    assert says in said
    assert "install fio 3.33 or newer" in said


def test_only_root_measures_a_block_device(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    media = [entry.parent for entry in Path("/sys/block").glob("*/size") if int(entry.read_text())]
    node = next((at for at in (Path("/dev", sys.name) for sys in media) if at.exists()), None)
    if node is None:
        pytest.skip("this machine shows no block device with a medium")
    monkeypatch.setattr("os.geteuid", lambda: 1000)

    code = main.run(["run", "quick", "--target", str(node), "--output", str(tmp_path / "run")])

    said = capfd.readouterr().err
    assert code == 4
    assert f"only root can measure {node}" in said
    assert "sudo" in said


def test_a_profile_directory_of_someone_else_is_passed_over(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def forbidden(path: Path) -> bool:
        if str(path).startswith(str(tmp_path)):
            raise PermissionError(13, "Permission denied", str(path))
        return path.exists()

    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.setattr(Path, "is_file", forbidden)

    assert main.run(["plan", "demo"]) == 0
    assert "target: sim:x25m-g2-160" in capfd.readouterr().out


@pytest.mark.parametrize(
    "argv",
    [
        "check L", "plan L", "run L/x.yaml", "run p.yaml --target L", "run p.yaml --target sim:L",
        "run p.yaml --output L", "run p.yaml --output L/x", "run p.yaml --plan L", "retire L",
        "resume L", "stop L", "attach L", "report L", "report run", "compare L L", "compare run L",
        "capacity L", "donate L", "donate run",
    ],
)  # fmt: skip
def test_a_loop_of_links_is_a_sentence(
    argv: str, tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("p.yaml").write_text(GOOD)
    Path("L").symlink_to("L")
    a_small_run(Path("run"))
    shutil.rmtree("run/stages")
    Path("run/stages").symlink_to("stages")

    assert main.run(argv.split()) in ({0} if argv == "report run" else {2, 4})

    assert "Traceback" not in capfd.readouterr().err
