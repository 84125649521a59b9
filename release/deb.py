"""Debian packages: ssdbench with an environment of its own, and the kernel modules for DKMS.

`python -m release.deb WHEEL OUT` writes both into the directory OUT. The first holds everything
of locks/run.txt for the Python of this distribution, so that no other package's Python libraries
are used or changed; it is for the distribution and processor that built it. The second holds the
module sources, which DKMS builds on the user's machine. With `--suite bookworm trixie noble` the
packages are built on machines of these distributions, which have no network; it needs root.
"""

import argparse
import os
import platform
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from release import machines

ROOT = Path(__file__).parents[1]
SYSTEM_PYTHON = "/usr/bin/python3"
HOME = Path("usr/lib/ssdbench")  # a virtual environment
MAINTAINER = "the ssdbench contributors <ssdbench@localhost>"
START = f"""\
#!/{HOME}/bin/python3 -I
import sys
from ssdbench.__main__ import main
sys.exit(main())
"""
CONTROL = """\
Package: {name}
Version: {version}
Architecture: {architecture}
Maintainer: {maintainer}
Section: admin
Priority: optional
Depends: {depends}
Recommends: {recommends}
Installed-Size: {kib}
Description: {title}
{text}
"""
# What Python would write when root starts it, and leave behind: written now, and removed with it.
PROGRAM_SCRIPTS = {
    "postinst": f"""\
#!/bin/sh
set -e
if [ "$1" = configure ]; then
    /{HOME}/bin/python3 -I -m compileall -q /{HOME}/lib >/dev/null || true
fi
""",
    "prerm": f"""\
#!/bin/sh
set -e
find /{HOME} -name __pycache__ -type d -prune -exec rm -rf {{}} +
""",
}
# /usr/lib/dkms/common.postinst is how Debian's own DKMS packages add, build and install.
POSTINST = """\
#!/bin/sh
set -e
if [ "$1" = configure ]; then
    for module in flash tmerge bpref slam; do
        /usr/lib/dkms/common.postinst "ssdbench-$module" {version} "" "" "$2" ||
            echo "ssdbench-dkms: ssdb_$module cannot be built for this kernel; the others go on" >&2
    done
fi
"""
PRERM = """\
#!/bin/sh
set -e
for module in slam bpref tmerge flash; do
    dkms remove -m "ssdbench-$module" -v {version} --all >/dev/null 2>&1 || true
done
"""


def run(*words: object, **env: str) -> str:
    """Start a program; its stdout. Raises CalledProcessError when it fails."""
    done = subprocess.run(
        [str(word) for word in words], check=True, stdout=subprocess.PIPE, text=True,
        env={**os.environ, **env},
    )  # fmt: skip
    return done.stdout.strip()


def environment(stage: Path, wheel: Path) -> None:
    """A virtual environment below `stage` that works once it lies at /usr/lib/ssdbench."""
    home = stage / HOME
    version = run(SYSTEM_PYTHON, "-c", "import sys; print('%d.%d.%d' % sys.version_info[:3])")
    site = home / "lib" / f"python{version.rpartition('.')[0]}" / "site-packages"
    pip = (
        sys.executable, "-m", "pip", "--python", SYSTEM_PYTHON, "install", "-q",
        "--disable-pip-version-check", "--no-compile", "--no-warn-script-location",
        "--root-user-action", "ignore", "--target", site,
    )  # fmt: skip
    run(*pip, "--require-hashes", "-r", ROOT / "locks" / "run.txt")
    run(*pip, "--no-deps", "--upgrade", wheel)  # its share/ in place of others
    (home / "bin").mkdir()
    (home / "bin" / "python3").symlink_to(SYSTEM_PYTHON)
    (home / "pyvenv.cfg").write_text(
        f"home = /usr/bin\ninclude-system-site-packages = false\nversion = {version}\n"
    )
    for place in (site / "share").iterdir():  # what the wheel has for man and shells
        shutil.copytree(place, stage / "usr" / "share" / place.name)
    shutil.rmtree(site / "share")
    shutil.rmtree(site / "bin")
    start = stage / "usr" / "bin" / "ssdbench"
    start.parent.mkdir()
    start.write_text(START)
    start.chmod(0o755)


def python_needed() -> str:
    """The compiled parts of the environment are for one minor version of Python alone."""
    minor = int(run(SYSTEM_PYTHON, "-c", "import sys; print(sys.version_info.minor)"))
    return f"python3 (>= 3.{minor}), python3 (<< 3.{minor + 1})"


def scripts(stage: Path, texts: dict[str, str]) -> None:
    """What dpkg runs when the package is installed and removed."""
    control = stage / "DEBIAN"
    control.mkdir()
    for name, text in texts.items():
        (control / name).write_text(text)
        (control / name).chmod(0o755)


def pack(stage: Path, out: Path, fields: dict[str, str]) -> Path:
    """Write DEBIAN/control below `stage` and make the package in `out`."""
    licences = stage / "usr" / "share" / "doc" / fields["name"] / "copyright"
    licences.parent.mkdir(parents=True)
    texts = [ROOT / "LICENSE", *sorted((ROOT / "LICENSES").glob("*.txt"))]
    licences.write_text("\n\n".join(path.read_text() for path in texts))
    kib = sum(path.lstat().st_size for path in stage.rglob("*")) // 1024
    control = stage / "DEBIAN" / "control"
    control.parent.mkdir(exist_ok=True)
    control.write_text(CONTROL.format(**fields, maintainer=MAINTAINER, kib=kib))
    for path in stage.rglob("*"):  # whatever the builder's umask was
        if not path.is_symlink():
            path.chmod(0o755 if path.is_dir() or path.stat().st_mode & 0o100 else 0o644)
    stage.chmod(0o755)
    package = out / f"{fields['name']}_{fields['version']}_{fields['architecture']}.deb"
    run("dpkg-deb", "--build", "--root-owner-group", "-Zzstd", "-z9", stage, package)
    return package


def program(wheel: Path, version: str, out: Path) -> Path:
    """The package `ssdbench`; its version says for which distribution, such as 2.0+debian12."""
    system = platform.freedesktop_os_release()
    with tempfile.TemporaryDirectory() as work:
        stage = Path(work)
        environment(stage, wheel)
        scripts(stage, PROGRAM_SCRIPTS)
        return pack(
            stage,
            out,
            {
                "name": "ssdbench",
                "version": f"{version}+{system['ID']}{system.get('VERSION_ID', '')}",
                "architecture": run("dpkg", "--print-architecture"),
                "depends": f"{python_needed()}, fio, util-linux, mount, procps, libnbd0, kmod",
                "recommends": "nvme-cli, smartmontools",
                "title": "the pessimist's SSD benchmark",
                "text": (
                    " From a drive to a number that a capacity planner can bet on: fills the\n"
                    " drive, proves steady state, and measures small random I/O with fio,\n"
                    " repeatedly, with pessimistic bounds. Brings its own Python environment."
                ),
            },
        )


def modules(wheel: Path, version: str, out: Path) -> Path:
    """The package `ssdbench-dkms`, from the module sources in the wheel."""
    with tempfile.TemporaryDirectory() as work:
        stage = Path(work) / "stage"
        run("python3", "-m", "zipfile", "-e", wheel, Path(work) / "wheel")
        for module in ("flash", "tmerge", "bpref", "slam"):
            source = stage / "usr" / "src" / f"ssdbench-{module}-{version}"
            shutil.copytree(Path(work) / "wheel" / "ssdbench" / "kmod", source)
            recipe = source / "dkms.conf"
            text = recipe.read_text().replace("@VERSION@", version)
            recipe.write_text(text.replace("@MODULE@", module))
        texts = {"postinst": POSTINST, "prerm": PRERM}
        scripts(stage, {name: text.format(version=version) for name, text in texts.items()})
        return pack(
            stage,
            out,
            {
                "name": "ssdbench-dkms",
                "version": version,
                "architecture": "all",
                "depends": "dkms",
                "recommends": "linux-headers-generic | linux-headers-amd64 | linux-headers-arm64",
                "title": "kernel modules of ssdbench, for DKMS",
                "text": (
                    " A simulated flash drive, block-preferential I/O schedulers, temporal\n"
                    " merge and an in-kernel I/O slammer. Built for the running kernel when\n"
                    " the package is installed; never loaded without being asked."
                ),
            },
        )


def wheelhouse(version: str) -> Path:
    """Fetch all wheels of locks/run.txt for a version of Python; the directory that has them."""
    place = machines.CACHE / f"wheels-{version}"
    processor = os.uname().machine
    tags = [f"manylinux_2_{minor}" for minor in range(5, 35)] + ["manylinux1", "manylinux2014"]
    run(
        sys.executable, "-m", "pip", "download", "-q", "--disable-pip-version-check",
        "--require-hashes", "--only-binary=:all:", "--implementation", "cp",
        "--python-version", version, *(f"--platform={tag}_{processor}" for tag in tags),
        "-d", place, "-r", ROOT / "locks" / "run.txt",
    )  # fmt: skip
    return place


def on_machine(suite: str, wheel: Path, out: Path) -> bool:
    """Build on a machine of another distribution; return whether its packages were reached.

    Raises CalledProcessError if the build fails.
    """
    archive = machines.root_archive(suite, "package")
    if archive is None:
        return False
    with machines.unpacked(archive) as root:
        place = root / "srv"
        log = place / "log"
        question = "import sys; print('%d.%d' % sys.version_info[:2])"
        machines.inside(root, "root", f'python3 -c "{question}" >/srv/python', log)
        shutil.copytree(wheelhouse((place / "python").read_text().strip()), place / "wheels")
        for name in ("release", "locks", "LICENSES"):
            shutil.copytree(ROOT / name, place / name)
        shutil.copy(ROOT / "LICENSE", place)
        shutil.copy(wheel, place)
        script = (
            "cd /srv && PIP_NO_INDEX=1 PIP_FIND_LINKS=/srv/wheels "
            f"/usr/bin/python3 -m release.deb /srv/{wheel.name} /srv/out"
        )
        if status := machines.inside(root, "root", script, log, offline=True):
            raise subprocess.CalledProcessError(status, script, log.read_text())
        for package in (place / "out").iterdir():
            print(shutil.copy(package, out))
    return True


def main() -> None:
    """Build both packages and print their paths."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("wheel", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--suite", nargs="+", choices=machines.SUITES, default=[])
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    if args.suite:
        reached = [on_machine(suite, args.wheel, args.out) for suite in args.suite]
        sys.exit(0 if all(reached) else 1)
    version = args.wheel.name.split("-")[1]
    print(program(args.wheel.resolve(), version, args.out))
    print(modules(args.wheel.resolve(), version, args.out))


if __name__ == "__main__":
    main()
