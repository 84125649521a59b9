"""Checks, tests, benchmarks and documents: `nox -l` lists them.

Sessions without an environment of their own run in the one that started nox, which `./bootstrap
setup` makes in .venv from locks/dev.txt; `unit`, `oldest` and `newest` make their own.
"""

import itertools
import os
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Sequence
from pathlib import Path

import nox

nox.needs_version = ">=2024.4.15"
nox.options.sessions = ["lint", "types", "tests"]
nox.options.reuse_existing_virtualenvs = True
nox.options.error_on_missing_interpreters = False

PYTHONS = ["3.11", "3.12", "3.13"]
LOCKED = "locks/dev.txt"
SHIPPED = "locks/run.txt"
UNIT_TIER = "not host and not vm and not systems and not soak and not timed"
SOURCES = ["ssdbench", "tests", "benchmarks", "release", "docs", "noxfile.py", "hatch_build.py"]


def python(session: nox.Session, *args: str, ok: Sequence[int] = (0,), **env: str) -> None:
    """Run a module of the environment that started nox."""
    session.run(sys.executable, *args, external=True, env={**os.environ, **env}, success_codes=ok)


@nox.session(venv_backend="none")
def lint(session: nox.Session) -> None:
    """Format, lint, import contract, spelling, shell scripts, subjects of commits."""
    python(session, "-m", "ruff", "format", "--check", *SOURCES)
    python(session, "-m", "ruff", "check", *SOURCES)
    session.run(str(Path(sys.executable).parent / "lint-imports"), external=True)
    python(session, "-m", "codespell_lib", "ssdbench", "docs", "tests", "kmod", "README.md")
    session.run("shellcheck", "bootstrap", ".ci/run", external=True)
    python(session, "-m", "release.subjects")


@nox.session(venv_backend="none")
def types(session: nox.Session) -> None:
    """Strict type check of package, tests, benchmarks and this file."""
    python(session, "-m", "mypy")


@nox.session(venv_backend="none")
def tests(session: nox.Session) -> None:
    """Tests that need no root: pure code, the simulated drive, the command line."""
    python(
        session,
        "-m",
        "pytest",
        "-n",
        "2",
        "-m",
        UNIT_TIER,
        *session.posargs,
    )


def tests_of_changes() -> list[str]:
    """Unit tests that were changed since the last commit, or that name a module that was."""
    changed = subprocess.run(
        ["git", "status", "--porcelain", "--untracked-files=all"],
        capture_output=True, text=True, check=True,
    ).stdout  # fmt: skip
    paths = [Path(line[3:].rpartition(" -> ")[2]) for line in changed.splitlines()]
    modules = [".".join(path.with_suffix("").parts) for path in paths if path.suffix == ".py"]
    named = [
        rf"\b{re.escape(module)}\b|from {re.escape(module.rpartition('.')[0])} import [^\n]*"
        rf"\b{module.rpartition('.')[2]}\b"
        for module in modules
        if module.startswith("ssdbench.")
    ]
    return [
        str(path)
        for path in sorted(Path("tests/unit").rglob("test_*.py"))
        if path in paths or any(re.search(one, path.read_text()) for one in named)
    ]


@nox.session(venv_backend="none")
def quick(session: nox.Session) -> None:
    """Format, lint and the unit tests of what changed since the last commit; `-- TEST…` others."""
    python(session, "-m", "ruff", "format", "-q", *SOURCES)
    python(session, "-m", "ruff", "check", "-q", *SOURCES)
    tests = session.posargs or tests_of_changes()
    if not tests:
        session.error("no unit test names what changed: `nox -s quick -- TEST…`")
    python(session, "-m", "pytest", "-q", "-x", "-n", "0", "-m", UNIT_TIER, *tests)


@nox.session(venv_backend="none")
def clean(session: nox.Session) -> None:
    """The same tests for a user of whom nothing is known: env -i, LANG=C, umask 077, tmpfs."""
    session.run(
        "env", "-i", f"HOME={Path.home()}", f"PATH={os.environ['PATH']}", "LANG=C",
        "TMPDIR=/dev/shm", "sh", "-c", 'umask 077; exec "$@"', "sh",
        sys.executable, "-m", "pytest", "-n", "2", "-m", UNIT_TIER, *session.posargs, external=True,
    )  # fmt: skip


@nox.session(python=PYTHONS)
def unit(session: nox.Session) -> None:
    """Types and the same tests on every Python, with the locked packages."""
    install_locked(session, LOCKED)
    session.run("mypy")
    session.run("pytest", "-n", "2", "-m", UNIT_TIER, *session.posargs)


@nox.session(python=PYTHONS[0])
def oldest(session: nox.Session) -> None:
    """The same tests with the lowest versions that pyproject.toml allows, on the oldest Python."""
    session.install("uv")
    session.run(
        "uv",
        "pip",
        "install",
        "-q",
        "--resolution",
        "lowest-direct",
        "-e",
        ".[duckdb,fleet]",
        "--group",
        "test",
    )
    session.run("pytest", "-n", "2", "-m", UNIT_TIER, *session.posargs)


@nox.session(python=PYTHONS[1:])
def newest(session: nox.Session) -> None:
    """The same tests with the newest packages of today, as a user would get them."""
    session.run("python", "-m", "pip", "install", "-q", "--upgrade", "pip>=25.1")
    session.run(
        "python", "-m", "pip", "install", "-q",
        "--upgrade", "--upgrade-strategy", "eager", "-e", ".[duckdb,fleet]", "--group", "test",
    )  # fmt: skip
    session.run("pytest", "-n", "2", "-m", UNIT_TIER, *session.posargs)


def install_locked(session: nox.Session, lock: str) -> None:
    """Install exactly what a lock file names, and ssdbench from this clone."""
    pip = ("python", "-m", "pip", "install", "-q")
    session.run(*pip, "--require-hashes", "-r", lock)
    session.run(*pip, "--no-deps", "--no-build-isolation", "-e", ".")


@nox.session
def lock(session: nox.Session) -> None:
    """Renew the lock files: one set of packages for every Python."""
    session.install("uv")
    common = (
        "uv", "pip", "compile", "-q", "--universal", "--python-version", PYTHONS[0],
        "--generate-hashes", "--no-emit-index-url", "--custom-compile-command", "nox -s lock",
        "--extra", "duckdb", "--extra", "fleet", "pyproject.toml",
    )  # fmt: skip
    # The fewest versions: what passes the type check on one Python passes it on all.
    session.run(
        *common, "--group", "dev", "--upgrade", "--fork-strategy", "fewest", "-o", LOCKED,
    )  # fmt: skip
    # What a user runs: the same versions without the tools of developers.
    session.run(*common, "--no-annotate", "--fork-strategy", "fewest", "-c", LOCKED, "-o", SHIPPED)


@nox.session(venv_backend="none")
@nox.parametrize(
    ("tests", "workers"), [("not alone", "4"), ("alone", "0")], ids=["beside", "alone"]
)
def host(session: nox.Session, tests: str, workers: str) -> None:
    """Tests on this host: root, loop devices and real fio; four at a time, as most of it waits."""
    python(
        session,
        "-m",
        "pytest",
        "-n",
        workers,
        "--dist",
        "worksteal",
        "-m",
        f"host and not soak and not timed and {tests}",
        *(session.posargs or ["tests/host"]),
        ok=(0, 5) if session.posargs else (0,),  # 5: none of what was asked for
        SSDBENCH_REQUIRE="host",
    )


@nox.session(venv_backend="none")
def vm(session: nox.Session) -> None:
    """Tests inside QEMU guests, which the tests of a kernel share."""
    python(
        session,
        "-m",
        "pytest",
        "-n",
        "2",
        "--dist",
        "loadgroup",
        "-m",
        "vm and not soak and not timed",
        *(session.posargs or ["tests/vm"]),
    )


@nox.session
def systems(session: nox.Session) -> None:
    """Real programs of others, from packages: sshd, Slurm, Ansible, Prometheus; root; minutes."""
    session.install("ansible-core", "dask-jobqueue", "duckdb", "pandas", "polars", "pyarrow")
    tests = session.posargs or ["tests/systems"]
    path = f"{session.bin}:{os.environ['PATH']}"
    python(session, "-m", "pytest", "-n", "0", "-m", "systems", *tests, PATH=path)


@nox.session(venv_backend="none")
def timed(session: nox.Session) -> None:
    """Tests that assert seconds of the host's clock, one at a time; on an idle host, as root."""
    python(
        session, "-m", "pytest", "-n", "0", "-m", "timed and not soak", *session.posargs,
        SSDBENCH_REQUIRE="host",
    )  # fmt: skip


def names_tests(word: str) -> bool:
    """Whether a word is for pytest: an option, or what is there."""
    return word.startswith("-") or Path(word.partition("::")[0]).exists()


@nox.session(venv_backend="none", name="vm-debug")
def vm_debug(session: nox.Session) -> None:
    """Kernel modules and failed allocations on a kernel with every check, built once; hours.

    `-- kcsan` takes a kernel that looks for data races in place of KASAN (and no walk over
    allocations), `-- kasan 6.12-rt`, `6.1`, `7.x` or `7.x-rt` one of another kind, `-- TEST…` other
    tests.
    """
    words = list(session.posargs)
    of_kernel = list(itertools.takewhile(lambda word: not names_tests(word), words))
    words = words[len(of_kernel) :]
    checker = "kcsan" if "kcsan" in of_kernel else "kasan"
    series = next((word for word in of_kernel if word not in ("kasan", "kcsan")), "6.12")
    if series.endswith("-um"):
        session.error(f"no guest boots {series}: without -um, its walk is in user mode by itself")

    def kernel(*of_kernel: str) -> str:
        said = session.run(
            sys.executable, "-m", "tests.vm.debug_kernel", *of_kernel,
            external=True, silent=True, stderr=sys.stderr,
        )  # fmt: skip
        return str(said).strip()

    guest = kernel(*of_kernel)
    usual = ["flash", "zones", "tmerge", "slam", "bpref", "faults", "stress"]
    rarer = ["drive_gone", "cpu_hotplug", "faults"]
    unstretched = "vm and not timed and not stretched"
    parts = [(words, unstretched, guest)] if words else [
        ([f"tests/vm/test_{name}.py" for name in usual], f"not soak and {unstretched}", guest),
        ([f"tests/vm/test_{name}.py" for name in rarer], f"soak and {unstretched}", guest),
    ]  # fmt: skip
    if checker == "kasan" and not words:  # user mode is fast, and has no PREEMPT_RT
        walked = guest if series.endswith("-rt") else kernel(checker, f"{series}-um")
        parts.append((["tests/vm/test_fail_nth.py"], "vm and soak", walked))
    for tests, which, tree in parts:
        python(
            session, "-m", "pytest", "-m", which, "--timeout", "0", *tests,
            SSDBENCH_LAB_KERNEL_DIR=tree,
        )  # fmt: skip


@nox.session(venv_backend="none")
def coccicheck(session: nox.Session) -> None:
    """Coccinelle's rules of the kernel over our modules; minutes. Sparse is one of the vm tests."""
    python(session, "-m", "tests.vm.coccicheck", *session.posargs)


@nox.session(venv_backend="none")
def checkpatch(session: nox.Session) -> None:
    """The kernel's checkpatch.pl over our modules, at 100 columns; fetches a kernel's source."""
    python(session, "-m", "tests.vm.checkpatch", *session.posargs)


@nox.session(venv_backend="none")
def fuzz(session: nox.Session) -> None:
    """Foreign input in small numbers, below a minute; `nox -s soak` has a million profiles."""
    python(session, "-m", "pytest", "-m", "not soak", "tests/fuzz", *session.posargs)


@nox.session(venv_backend="none")
def soak(session: nox.Session) -> None:
    """Endurance tests at their full count; hours."""
    python(session, "-m", "pytest", "-m", "soak", "--timeout", "0", *session.posargs)


@nox.session(venv_backend="none")
def bench(session: nox.Session) -> None:
    """What ssdbench costs the measurement, and how fast the simulated drive is."""
    python(session, "-m", "benchmarks.overhead", *session.posargs)
    python(session, "-m", "benchmarks.sim_speed")


@nox.session(venv_backend="none")
def peers(session: nox.Session) -> None:
    """What other ways of running fio report of drives whose truth is known, as far as installed."""
    python(session, "-m", "benchmarks.peers", *session.posargs)


@nox.session(venv_backend="none", name="judge-the-judges")
def judge_the_judges(session: nox.Session) -> None:
    """Every steady-state rule over the zoo of simulated drives, in one table."""
    python(session, "-m", "benchmarks.judge_the_judges", *session.posargs)


@nox.session(venv_backend="none")
def fidelity(session: nox.Session) -> None:
    """Simulated drives fitted to half of real drives' series, against the other half: `-- DIR`."""
    python(session, "-m", "benchmarks.fidelity", *session.posargs)


@nox.session(venv_backend="none", name="judge-the-answers")
def judge_the_answers(session: nox.Session) -> None:
    """Block sizes and probes on hidden drives, right, wrong or "cannot tell"; `-- --full`."""
    python(session, "-m", "benchmarks.judge_the_answers", *session.posargs)


@nox.session(venv_backend="none")
def blktests(session: nox.Session) -> None:
    """blktests on null_blk and our devices in the lab: `-- DIR`, a clone of yours; `--write`."""
    python(session, "-m", "benchmarks.blktests", *session.posargs)


@nox.session(venv_backend="none", name="two-cpus")
def two_cpus(session: nox.Session) -> None:
    """The modules' code on two CPUs, in user space; `-- interrupts|slots|merge --cpus A,B`."""
    python(session, "-m", "benchmarks.two_cpus", *session.posargs)


@nox.session(venv_backend="none")
def gallery(session: nox.Session) -> None:
    """Rebuild the example reports in reports/gallery, some from new runs on the simulated drive."""
    python(session, "-m", "benchmarks.gallery", *session.posargs)


@nox.session(venv_backend="none")
def papers(session: nox.Session) -> None:
    """Run the papers' experiments and write their pages; hours; `-- NAME…` some, `-- --pages`."""
    python(session, "-m", "benchmarks.papers", *session.posargs)


@nox.session(venv_backend="none")
def pictures(session: nox.Session) -> None:
    """Keep what the pages of six runs look like and say now, with Chromium; look at the change."""
    proof = "tests/unit/report/test_page_pictures.py"
    python(session, "-m", "pytest", proof, *session.posargs, UPDATE_GOLDENS="1")


@nox.session
def changelog(session: nox.Session) -> None:
    """Set the version and gather changelog.d into CHANGELOG.md; with --draft, only show it."""
    session.install("towncrier")
    session.run("towncrier", "build", "--yes", "--version", *session.posargs)
    if "--draft" not in session.posargs:
        place = Path("ssdbench/__init__.py")
        line = f'__version__ = "{session.posargs[0]}"'
        place.write_text(re.sub("^__version__ = .*", line, place.read_text(), flags=re.MULTILINE))


@nox.session
def dist(session: nox.Session) -> None:
    """Everything of a release in dist/: sdist, wheels, Debian packages, SBOM; `-- --upload`."""
    out = Path("dist").absolute()
    upload = "--upload" in session.posargs
    if "urls" not in tomllib.loads(Path("pyproject.toml").read_text())["project"]:
        lacks = "pyproject.toml has no [project.urls]: add where ssdbench is published"
        if upload:
            session.error(f"{lacks}; nothing is uploaded without")
        session.warn(lacks)
    if not shutil.which("pandoc"):
        session.error("without pandoc the wheels have no manual page: apt-get install pandoc")
    if out.exists():
        session.error("dist/ is there already: move it away, so that nothing old is released")
    session.install("build", "twine", "auditwheel", "cyclonedx-bom")
    session.run("python", "-m", "build", "--outdir", str(out))
    if shutil.which("aarch64-linux-gnu-gcc"):
        with tempfile.TemporaryDirectory() as work:  # its compiled parts must not stay in the clone
            session.run("tar", "-xf", str(next(out.glob("*.tar.gz"))), "-C", work, external=True)
            with session.chdir(next(Path(work).iterdir())):
                session.run(
                    "python", "-m", "build", "--wheel", "--outdir", str(out),
                    env={"CC": "aarch64-linux-gnu-gcc", "_PYTHON_HOST_PLATFORM": "linux-aarch64"},
                )  # fmt: skip
    else:
        session.warn(
            "no wheel for arm64: apt-get install gcc-aarch64-linux-gnu libc6-dev-arm64-cross"
        )
    for wheel in sorted(out.glob("*.whl")):
        session.run("auditwheel", "show", str(wheel))
    session.run("twine", "check", "--strict", *(str(path) for path in sorted(out.iterdir())))
    session.run(
        "cyclonedx-py", "requirements", "--output-reproducible", "--pyproject", "pyproject.toml",
        "-o", str(out / "ssdbench.cdx.json"), SHIPPED,
    )  # fmt: skip
    native = str(next(out.glob(f"*_{os.uname().machine}.whl")))
    suites = ["--suite", "bookworm", "trixie", "noble"]
    if os.geteuid() or not shutil.which("mmdebstrap"):
        session.warn("one .deb, for this distribution; three need root and mmdebstrap")
        suites = []
    session.run("python", "-m", "release.deb", native, str(out), *suites)
    if upload:
        files = [*out.glob("*.whl"), *out.glob("*.tar.gz")]
        session.run("twine", "upload", *(str(path) for path in sorted(files)))


@nox.session(venv_backend="none")
def machines(session: nox.Session) -> None:
    """Try both commands, and the release, on fresh Debian and Ubuntu machines; root; hours."""
    python(session, "-m", "release.machines", *session.posargs)


@nox.session(venv_backend="none")
def docs(session: nox.Session) -> None:
    """Check that the documents are true, and build their site: docs/build/index.html."""
    python(session, "-m", "pytest", "tests/unit/test_docs.py", *session.posargs)
    python(session, "-m", "sphinx", "-q", "-W", "--keep-going", "-E", "docs", "docs/build")
    loads = re.compile(
        r"<(?:script|link|img|iframe)[^>]* (?:src|href)=\"(?:https?:)?//|url\(['\"]?http"
    )
    pages = [path for kind in ("html", "css") for path in Path("docs/build").rglob(f"*.{kind}")]
    if asking := [str(path) for path in pages if loads.search(path.read_text())]:
        session.error(f"these pages load something from elsewhere: {', '.join(asking)}")
