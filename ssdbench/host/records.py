"""Where this host keeps what ssdbench must be able to believe later."""

import os
from pathlib import Path


def settings_directory() -> Path:
    """Where journals of changed settings and records of runs and drives are kept.

    Outside of any run directory, and for root where only root can write.
    """
    if chosen := os.environ.get("SSDBENCH_SETTINGS"):
        return Path(chosen)
    if os.geteuid() == 0:
        return Path("/var/lib/ssdbench/settings")
    base = os.environ.get("XDG_STATE_HOME")
    state = Path(base) if base else Path.home() / ".local" / "state"
    return state / "ssdbench" / "settings"
