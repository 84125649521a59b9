"""Programs that were built with ThreadSanitizer."""

from collections.abc import Sequence

from ssdbench.host import command


def unraced(argv: Sequence[str]) -> str:
    """What a program prints; a race that ThreadSanitizer sees in it fails the test."""
    said = command.run(argv, timeout_s=60, ok=(0, 66))  # 66: ThreadSanitizer has something to say
    # Before gcc 14 it does not work with vm.mmap_rnd_bits=32, which Ubuntu has.
    if "unexpected memory mapping" in said.stderr:
        said = command.run(["setarch", "--addr-no-randomize", *argv], timeout_s=60, ok=(0, 66))
    assert said.status == 0, said.stderr
    return said.stdout
