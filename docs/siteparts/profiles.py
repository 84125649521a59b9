"""The shipped profiles, as they are."""

from pathlib import Path

PROFILES = Path(__file__).parents[2] / "profiles"


def page() -> str:
    """A section for each file."""
    files = sorted(PROFILES.rglob("*.yaml"))
    return "\n\n".join(f"## {_name(path)}\n\n```yaml\n{path.read_text()}```" for path in files)


def _name(path: Path) -> str:
    return str(path.relative_to(PROFILES).with_suffix(""))
