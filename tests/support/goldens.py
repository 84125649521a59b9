"""Golden files: what the program wrote must be what was looked at and kept.

`UPDATE_GOLDENS=1 pytest …` rewrites them; read the difference before committing it.
"""

import os
from pathlib import Path

GOLDEN = Path(__file__).parent.parent / "golden"


def assert_golden(relative: str, text: str) -> None:
    """Compare a text with tests/golden/RELATIVE."""
    path = GOLDEN / relative
    if os.environ.get("UPDATE_GOLDENS"):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    assert path.read_text(encoding="utf-8") == text, f"{path} differs (UPDATE_GOLDENS=1 rewrites)"
