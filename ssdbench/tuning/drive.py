"""Settings that live in the drive, from a profile's wishes (pure)."""

from collections.abc import Iterator

from ssdbench.errors import HostLacks
from ssdbench.model.profile import KEEP, Host, Switch
from ssdbench.tuning.setting import Backend, Setting

# Feature identifiers of NVM Express 2.0, 5.27.1.
POWER_STATE, WRITE_CACHE, COALESCING = "0x02", "0x06", "0x08"
_CACHE = "data in a volatile cache is not on flash yet"
_POWER = "a drive in a power-saving state answers late"
_COALESCE = "coalesced interrupts delay completions"


def drive_settings(wishes: Host, bus: str, drive: str) -> list[Setting]:
    """Settings inside a drive on "nvme", "ata", "scsi" or "virtio".

    Raises HostLacks for what a drive on such a bus does not have.
    """
    return [*_write_cache(wishes.write_cache, bus, drive), *_features(wishes, bus, drive)]


def _write_cache(wish: Switch, bus: str, drive: str) -> Iterator[Setting]:
    if wish is Switch.KEEP:
        return
    on = wish is Switch.ON
    kernels_word = "write back" if on else "write through"
    match bus:
        case "nvme":
            yield Setting(Backend.NVME_FEATURE, WRITE_CACHE, str(int(on)), _CACHE, drive)
        case "ata" | "scsi":
            yield Setting(Backend.WRITE_CACHE, "cache_type", kernels_word, _CACHE, drive)
        case "virtio":
            yield Setting(Backend.BLOCK, "cache_type", kernels_word, _CACHE, drive)
        case _:
            raise HostLacks(
                "this target has no write cache that can be switched",
                hint="Set `write_cache: keep`.",
            )


def _features(wishes: Host, bus: str, drive: str) -> Iterator[Setting]:
    wanted = (
        ("power_state", wishes.power_state, POWER_STATE, _POWER),
        ("irq_coalescing", wishes.irq_coalescing, COALESCING, _COALESCE),
    )
    for name, value, feature, reason in wanted:
        if value == KEEP:
            continue
        if bus != "nvme":
            raise HostLacks(f"{name} is a setting of NVMe drives", hint=f"Set `{name}: keep`.")
        yield Setting(Backend.NVME_FEATURE, feature, value, reason, drive)
