"""Programs of the modules' code that were built with gcc's sanitizers."""

from collections.abc import Sequence
from pathlib import Path

from ssdbench.host import command

TESTS = Path(__file__).resolve().parents[2] / "kmod" / "tests"


def of_kmod(name: str, into: Path) -> Path:
    """A program of kmod/tests, which ends where an address or a value is not as C allows."""
    program = into / name
    command.run(
        [
            "gcc", "-std=gnu11", "-Wall", "-Wextra", "-Werror", "-g", "-O1",
            "-fsanitize=address,undefined", "-fno-sanitize-recover=all",
            f"-I{TESTS / 'fake'}", str(TESTS / f"{name}.c"), "-o", str(program),
        ],
        timeout_s=300,
    )  # fmt: skip
    return program


def unraced(argv: Sequence[str]) -> str:
    """What a program prints; a race that ThreadSanitizer sees in it fails the test."""
    said = command.run(argv, timeout_s=60, ok=(0, 66))  # 66: ThreadSanitizer has something to say
    # Before gcc 14 it does not work with vm.mmap_rnd_bits=32, which Ubuntu has.
    if "unexpected memory mapping" in said.stderr:
        said = command.run(["setarch", "--addr-no-randomize", *argv], timeout_s=60, ok=(0, 66))
    assert said.status == 0, said.stderr
    return said.stdout
