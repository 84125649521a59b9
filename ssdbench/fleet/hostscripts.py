"""Run shell scripts on a host of a fleet, and check what the host answers.

start   copy the profile to the host, and call `ssdbench run --attach-or-start --detach`
look    read the small files of a run, without starting ssdbench, and only while the run is not
        in a measurement window (`ssdbench.engine.hostlock`)
fetch   copy the result, and the files that prove it, from the host
stop    call `ssdbench stop`
"""

import gzip
import io
import math
import re
import shlex
import tarfile
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, TypeVar

from ssdbench.errors import UsageError, telling
from ssdbench.fleet.transport import ScriptResult, Transport
from ssdbench.foreign import exit_status, json_object, plain
from ssdbench.model.result import METHOD
from ssdbench.model.rundirectory import GATE, ROOM
from ssdbench.model.target import CONTENT

T = TypeVar("T")

# The files that prove a result. Large files stay on the host.
FETCHED = (
    "manifest.json", "journal.jsonl", "result.json", "result.json.sig", "ended.json",
    "events.jsonl",
)  # fmt: skip
_UNIT = re.compile(r"stages(?:/(?!\.)[\w.-]+)+/unit\.json")
_VERSION = re.compile(r"version (\S+)")
MOST_FETCHED_BYTES = 256 << 20
MOST_FINDINGS = 50
MOST_LOG_BYTES = 4000
MARK = "=== "
STAY_S = 3  # time to hold the host lock after a poll, for the ssh login of the next poll


@dataclass(frozen=True, slots=True)
class Job:
    """Everything that is needed to measure one drive: host, drive, profile text and options."""

    name: str  # name of the run directory
    host: str
    address: str
    rack: str
    target: str  # the current device name on the host
    identity: str
    model: str
    serial: str
    runs: str  # directory of all runs on the host
    profile_text: str
    ssdbench: tuple[str, ...]
    options: tuple[str, ...] = ()
    watts: float = 0.0
    firmware: str = ""
    simulated: bool = False
    version: str = ""  # version of ssdbench on the host

    @property
    def directory(self) -> str:
        """Return the run directory on the host."""
        return f"{self.runs}/{self.name}"


@dataclass(frozen=True, slots=True)
class Look:
    """The state of a run when the host was polled."""

    alive: bool
    exit_code: int | None
    clock_s: float | None  # time of the host, in seconds since 1970
    free_bytes: int | None
    progress: dict[str, Any]
    findings: tuple[str, ...]
    log: str  # the end of run.log, if the run has ended


def start(job: Job, reach: Transport, look_every_s: float) -> ScriptResult:
    """Attach to a run or start it. Raises Silent.

    If the run is in progress, the script first waits for the host lock of the run, so that no
    Python starts on the host during a measurement window. Until ssdbench has read the profile, the
    profile is in a private directory, so that another user cannot change it.
    """
    digest = sha256(job.profile_text.encode()).hexdigest()[:16]
    argv = (
        "--target", job.target, "--output", job.directory, "--attach-or-start", "--detach",
        "--json", *(() if job.simulated else ("--destroy", job.identity)), *job.options,
    )  # fmt: skip
    script = f"""
umask 022
own=$(mktemp -d) || exit 1
trap 'rm -rf "$own"' EXIT
trap 'exit 129' HUP INT TERM
mkdir -p {shlex.quote(job.runs)} && cat > "$own"/profile-{digest}.yaml || exit 1
({_wait_for_hostlock(job.directory)}
{shlex.join(job.ssdbench)} run "$own"/profile-{digest}.yaml {shlex.join(argv)} 9<&-)
"""
    given = job.profile_text.encode()
    return reach.call(job.address, script, given=given, idle_s=look_every_s)


def look(job: Job, reach: Transport, after_s: float = 0.0) -> Look:
    """Sleep `after_s` on the host, wait for the host lock of the run, then read its state.

    Raises Silent if the host does not answer, UsageError if the answer cannot be read.
    """
    script = f"""
sleep {after_s:.3f}
{_wait_for_hostlock(job.directory)}
echo '{MARK}boot'; cat /proc/sys/kernel/random/boot_id
echo; echo '{MARK}clock'; date +%s
cd {shlex.quote(job.directory)} 2>/dev/null || exit 0
echo; echo '{MARK}process'; cat process.json 2>/dev/null
pid=$(sed -n 's/.*"pid": *\\([0-9]*\\).*/\\1/p' process.json 2>/dev/null)
echo; echo '{MARK}stat'; [ -n "$pid" ] && cat "/proc/$pid/stat" 2>/dev/null
echo; echo '{MARK}progress'; cat progress.json 2>/dev/null
echo; echo '{MARK}findings'; grep FindingRaised events.jsonl 2>/dev/null | tail -n {MOST_FINDINGS}
echo; echo '{MARK}free'; df -Pk . | tail -n 1
echo; echo '{MARK}ended'; cat ended.json 2>/dev/null
echo; echo '{MARK}log'; [ -r ended.json ] && tail -c {MOST_LOG_BYTES} run.log 2>/dev/null
[ -r {ROOM} ] && sleep {STAY_S} </dev/null >/dev/null 2>&1 &
exit 0
"""
    said = reach.call(job.address, script, idle_s=after_s)
    parts = _parts(said.stdout.decode("utf-8", "replace"))
    if "boot" not in parts:
        raise UsageError(f"the answer of {job.host} cannot be read: {telling(said.stderr)}")
    return Look(
        alive=_is_alive(parts),
        exit_code=_parsed(exit_status, _object(parts.get("ended", "")).get("exit_code")),
        clock_s=_float(parts.get("clock", "")),
        free_bytes=_free(parts.get("free", "")),
        progress=_object(parts.get("progress", "")),
        findings=tuple(_findings(parts.get("findings", ""))),
        log=parts.get("log", ""),
    )


def _wait_for_hostlock(directory: str) -> str:
    """Return shell code that waits for the host lock of a run and takes it on file descriptor 9."""
    gate, room = (shlex.quote(f"{directory}/{name}") for name in (GATE, ROOM))
    go_in = f"exec 8<{gate}; flock -s 8; exec 9<{room}; flock -s 9; exec 8<&-"
    return f"if [ -r {gate} ] && [ -r {room} ]; then {go_in}; fi"


def fetch(job: Job, reach: Transport) -> dict[str, bytes]:
    """Fetch the files that prove the result of a run. Raises Silent, UsageError."""
    names = shlex.join(FETCHED)
    directory = shlex.quote(job.directory)
    script = (
        f"cd {directory} && {{ ls {names} 2>/dev/null; find stages -name unit.json -type f; }} "
        "| tar -cf - -T - | gzip -1"
    )
    said = reach.call(job.address, script, most_bytes=MOST_FETCHED_BYTES)
    files: dict[str, bytes] = {}
    left = MOST_FETCHED_BYTES
    try:
        with gzip.open(io.BytesIO(said.stdout)) as packed:
            data = packed.read(MOST_FETCHED_BYTES + 1)
        if len(data) > MOST_FETCHED_BYTES:
            raise _too_much(job)
        with tarfile.open(fileobj=io.BytesIO(data), mode="r:") as archive:
            for member in archive:
                known = member.name in FETCHED or _UNIT.fullmatch(member.name)
                if not known or not member.isreg():
                    raise UsageError(
                        f"{job.host} sent {plain(member.name, 80)}, which is not a file of a run"
                    )
                left -= member.size  # size with the holes of a sparse file
                if left < 0:
                    raise _too_much(job)
                held = archive.extractfile(member)
                files[member.name] = held.read() if held else b""
    except (tarfile.TarError, OSError, EOFError, zlib.error) as error:
        raise UsageError(f"the archive from {job.host} cannot be read: {error}") from error
    if "result.json" not in files or "manifest.json" not in files:
        raise UsageError(f"{job.host} has no result in {job.directory}")
    return files


def _too_much(job: Job) -> UsageError:
    return UsageError(f"{job.host} sent more than {MOST_FETCHED_BYTES:,} bytes of results")


def require_of(job: Job, files: dict[str, bytes]) -> None:
    """Raise UsageError if a result is from another drive, profile, run or METHOD than the job."""
    try:
        kept, result = json_object(files["manifest.json"]), json_object(files["result.json"])
        measured, digest = kept["target"]["id"], kept["profile_sha256"]
        run_id, confirmed = result["run_id"], result["target"]["id"]
        method = result.get("method", 1)
    except (ValueError, KeyError, TypeError) as error:
        raise UsageError(f"the result from {job.host} is damaged: {error}") from error
    identity = measured if job.simulated else job.identity.partition(CONTENT)[0]
    wanted = (identity, sha256(job.profile_text.encode()).hexdigest(), job.name, identity)
    if (measured, digest, run_id, confirmed) != wanted:
        raise UsageError(f"{job.host} sent the result of another drive, profile or run")
    if method != METHOD:
        raise UsageError(
            f"{job.host} measured by method {plain(str(method), 40)}, and this ssdbench has method "
            f"{METHOD}"
        )


def stop(job: Job, reach: Transport) -> ScriptResult:
    """Stop the run of a job cleanly, so that it can be resumed. Raises Silent."""
    return reach.call(
        job.address, shlex.join([*job.ssdbench, "stop", job.directory, "--wait", "90s"])
    )


def drives(
    address: str, words: Sequence[str], reach: Transport
) -> tuple[list[dict[str, Any]], str, int]:
    """Return the drives of a host, and the version and METHOD of the ssdbench on the host."""
    ask = (shlex.join([*words, *what]) for what in (("--version",), ("drives", "--json")))
    said = reach.call(address, "; ".join(ask))
    head, brace, rest = said.stdout.decode("utf-8", "replace").partition("{")
    version, found = _VERSION.search(head), _object(brace + rest)
    devices = found.get("devices")
    if said.status or found.get("document") != "drives" or not isinstance(devices, list):
        why = telling(said.stderr) if said.status else "its answer is not a list of drives"
        raise UsageError(
            f"{address} cannot list its drives: {why}",
            hint="install the same ssdbench there, and check `ssdbench:` and `become:`",
        )
    method = found.get("method", 1)  # older versions do not send their method
    return (
        [one for one in devices if isinstance(one, dict)],
        version[1] if version else "",
        method if isinstance(method, int) else 0,
    )


def _parts(text: str) -> dict[str, str]:
    parts: dict[str, list[str]] = {}
    name = ""
    for line in text.splitlines():
        if line.startswith(MARK):
            name = line.removeprefix(MARK)
            parts[name] = []
        elif name:
            parts[name].append(line)
    return {name: "\n".join(lines) for name, lines in parts.items()}


def _is_alive(parts: dict[str, str]) -> bool:
    """Return whether the process of the run is alive: same boot, same start time, not a zombie."""
    process = _object(parts.get("process", ""))
    fields = parts.get("stat", "").rpartition(")")[2].split()
    if len(fields) < 20 or fields[0] in ("Z", "X"):
        return False
    return (
        process.get("boot_id") == parts.get("boot", "").strip()
        and str(process.get("started_ticks")) == fields[19]
    )


def _findings(text: str) -> list[str]:
    said = (str(_object(line).get("text", "")).strip() for line in text.splitlines())
    return [plain(one, 400) for one in said if one]


def _parsed(parse: Callable[[Any], T], value: object) -> T | None:
    """Convert a value from a host with `parse`; return None if `parse` raises ValueError."""
    try:
        return parse(value)
    except ValueError:
        return None


def _object(text: str) -> dict[str, Any]:
    return _parsed(json_object, text) or {}


def _float(text: str) -> float | None:
    value = _parsed(float, text.strip())
    return value if value is not None and math.isfinite(value) else None


def _free(text: str) -> int | None:
    fields = text.split()
    known = len(fields) > 3 and re.fullmatch(r"[0-9]{1,18}", fields[3])
    return int(fields[3]) * 1024 if known else None
