"""The examples of docs/examples can be read by what reads them, and name options that exist."""

import json
import re
import subprocess
from pathlib import Path

import jsonschema
import pytest
from ruamel.yaml import YAML

from ssdbench import __version__
from ssdbench.cli.attach import stop
from ssdbench.cli.run import run
from ssdbench.fleet.inventory import read_fleet

EXAMPLES = Path(__file__).parents[3] / "docs" / "examples"
DATA = Path(__file__).parents[2] / "data"


@pytest.mark.parametrize("name", ["ssh.sh", "slurm.sh"])
def test_a_script_is_one(name: str) -> None:
    subprocess.run(["sh", "-n", EXAMPLES / name], check=True)


def test_a_name_that_a_drive_chose_is_one_word_for_the_far_shell(tmp_path: Path) -> None:
    programs = {
        "ssh": 'while [ "$1" != "--" ]; do shift; done; shift 2; exec sh -c "$*"',  # as sshd does
        "sudo": 'shift; exec "$@"',
        "ssdbench": f'printf "%s\\n" "$@" > {tmp_path}/words',
    }
    for name, script in programs.items():
        (tmp_path / name).write_text(f"#!/bin/sh\n{script}\n")
        (tmp_path / name).chmod(0o755)
    evil = "x'; touch begun #$(touch begun) a  b"
    (tmp_path / "drives.txt").write_text(f"h /dev/nvme0n1 {evil}\nh /dev/sda ../../x\n")

    done = subprocess.run(
        ["sh", EXAMPLES / "ssh.sh", "drives.txt"], cwd=tmp_path, check=False, text=True,
        capture_output=True, env={"PATH": f"{tmp_path}:/usr/bin:/bin"},
    )  # fmt: skip

    words = (tmp_path / "words").read_text().splitlines()
    assert words[words.index("--destroy") + 1] == evil
    assert words[words.index("--output") + 1] == f"/var/lib/ssdbench/lot/{evil}"
    assert not (tmp_path / "begun").exists()
    assert (done.returncode, "/dev/sda" in done.stderr) == (1, True)


@pytest.mark.parametrize("name", ["ssh.sh", "slurm.sh", "ansible.yaml", "kubernetes.yaml"])
def test_an_example_gives_options_of_run(name: str) -> None:
    known = {option for one in (run, stop) for part in one.params for option in part.opts}
    text = re.sub(r"#.*", "", (EXAMPLES / name).read_text())
    given = set(re.findall(r"(?<![\w-])--[a-z][a-z-]+", text))

    assert {"--attach-or-start", "--output", "--destroy"} <= given <= known


def test_ansible_and_kubernetes_are_yaml_of_their_kind() -> None:
    yaml = YAML(typ="safe", pure=True)
    (play,) = yaml.load((EXAMPLES / "ansible.yaml").read_text())
    job = yaml.load((EXAMPLES / "kubernetes.yaml").read_text())

    (measuring,) = [task for task in play["tasks"] if "async" in task]
    assert measuring["async"] > measuring["poll"]
    assert job["kind"] == "Job"
    assert job["spec"]["template"]["spec"]["restartPolicy"] == "Never"


def test_the_kubernetes_job_is_one_and_another_pod_comes_only_where_it_may_help() -> None:
    schema = json.loads((DATA / "kubernetes" / "job.json").read_text())
    job = YAML(typ="safe", pure=True).load((EXAMPLES / "kubernetes.yaml").read_text())
    misspelt = {**job, "spec": {**job["spec"], "backofLimit": 3}}
    pod = job["spec"]["template"]["spec"]
    rules = {rule["action"]: rule for rule in job["spec"]["podFailurePolicy"]["rules"]}

    jsonschema.validate(job, schema)
    with pytest.raises(jsonschema.ValidationError, match="backofLimit"):
        jsonschema.validate(misspelt, schema)
    # 5, a drive with an error, is resumed; 0 is the end, 130 and 143 are signals.
    assert rules["FailJob"]["onExitCodes"]["values"] == [1, 2, 3, 4, 6]
    assert job["spec"]["backoffLimit"] <= 3
    assert rules["Ignore"]["onPodConditions"] == [{"type": "DisruptionTarget", "status": "True"}]
    mounts = {one["mountPath"] for one in pod["containers"][0]["volumeMounts"]}
    assert mounts == {"/dev", "/run/udev", "/run/ssdbench", "/var/lib/ssdbench"}
    assert set(pod["containers"][0]["resources"]["requests"]) == {"cpu", "memory"}


def test_the_ansible_role_installs_the_version_of_the_documents_from_wheels_only() -> None:
    yaml = YAML(typ="safe", pure=True)
    role = EXAMPLES / "roles" / "ssdbench"
    (play,) = yaml.load((EXAMPLES / "install.yaml").read_text())
    defaults = yaml.load((role / "defaults" / "main.yaml").read_text())
    text = (role / "tasks" / "main.yaml").read_text()

    assert play["roles"][0] == {"role": "ssdbench", "ssdbench_version": __version__}
    assert defaults["ssdbench_version"] == __version__
    assert "--no-index" in text and '"ssdbench=={{ ssdbench_version }}"' in text
    assert set(re.findall(r"\bssdbench_\w+", text)) <= {*defaults, "ssdbench_there"}


def test_the_fleet_of_the_documents_is_one() -> None:
    fleet = read_fleet(EXAMPLES / "fleet.yaml")

    assert len(fleet.every_host) == 41
    assert fleet.every_host[-1].ssh == "root@192.0.2.7"
