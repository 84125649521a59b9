"""Sleep until another process changes a word of shared memory; no polling, no file descriptor."""

import ctypes
import errno
import platform
from ctypes import c_int, c_long, c_uint32, c_void_p

from ssdbench.errors import HostLacks

_WAIT, _WAKE = 0, 1
_SYSCALL = {"x86_64": 202, "aarch64": 98, "riscv64": 98, "ppc64le": 221, "s390x": 238}


class _Timespec(ctypes.Structure):
    _fields_ = (("seconds", c_long), ("nanoseconds", c_long))


_libc = ctypes.CDLL(None, use_errno=True)
_libc.syscall.restype = c_long


def _number() -> c_long:
    machine = platform.machine()
    if machine not in _SYSCALL:
        raise HostLacks(f"the simulated drive's clock is not ported to {machine}")
    return c_long(_SYSCALL[machine])


def wait(word: c_uint32, seen: int, *, timeout_s: float) -> bool:
    """Wait while `word` is `seen`; False when the time is over. May return early."""
    whole = int(timeout_s)
    limit = _Timespec(whole, int((timeout_s - whole) * 1e9))
    status = _libc.syscall(
        _number(),
        ctypes.byref(word),
        c_int(_WAIT),
        c_uint32(seen),
        ctypes.byref(limit),
        c_void_p(),
        c_int(0),
    )
    return not (status and ctypes.get_errno() == errno.ETIMEDOUT)


def wake(word: c_uint32) -> None:
    """Wake all who wait for `word`."""
    _libc.syscall(
        _number(),
        ctypes.byref(word),
        c_int(_WAKE),
        c_int(2**31 - 1),
        c_void_p(),
        c_void_p(),
        c_int(0),
    )
