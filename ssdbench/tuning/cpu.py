"""CPU frequency and turbo from a profile's wishes (pure)."""

from ssdbench.errors import HostLacks
from ssdbench.host.topology import NO_TURBO, Topology
from ssdbench.model.profile import KEEP, Switch
from ssdbench.tuning.setting import Backend, Setting

_GOVERNOR = "a changing CPU frequency changes latencies"
_TURBO = "turbo lasts only while the CPU is cool"


def governor_settings(governor: str, host: Topology) -> list[Setting]:
    """One setting per frequency policy. Raises HostLacks for a governor that is not offered."""
    if governor == KEEP:
        return []
    if not host.policies:
        raise HostLacks(
            f"cannot set the governor {governor}: this host does not scale its CPU frequency",
            hint="Set `governor: keep`.",
        )
    if host.governors and governor not in host.governors:
        raise HostLacks(
            f"there is no governor {governor} here", hint=f"It offers {', '.join(host.governors)}."
        )
    return [
        Setting(Backend.SYSFS, f"{policy}/scaling_governor", governor, _GOVERNOR)
        for policy in host.policies
    ]


def turbo_settings(turbo: Switch, host: Topology) -> list[Setting]:
    """Turbo on or off. Raises HostLacks where it cannot be switched."""
    if turbo is Switch.KEEP:
        return []
    if not host.turbo:
        raise HostLacks("turbo cannot be switched on this host", hint="Set `turbo: keep`.")
    on = turbo is Switch.ON
    value = str(int(not on if host.turbo == NO_TURBO else on))
    return [Setting(Backend.SYSFS, host.turbo, value, _TURBO)]
