"""Every stream of chance in a run has its own seed, and all of them come from one."""

from hashlib import blake2b


def derived(seed: int, *parts: str | int) -> int:
    """A 63-bit seed for what `parts` name, such as a stage, a point and a repeat.

    Hashed, so that neighbouring seeds share nothing: fio's generators are weak enough that
    seeds 1 and 2 would start alike.
    """
    text = "\0".join(str(part) for part in (seed, *parts))
    return int.from_bytes(blake2b(text.encode(), digest_size=8).digest()) >> 1
