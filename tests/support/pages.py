"""What may run in a page: the one script of ours, and nothing that anybody else wrote."""

import re
from base64 import b64encode
from hashlib import sha256
from html.parser import HTMLParser
from importlib.resources import files

SCRIPT = files("ssdbench.report").joinpath("page.js").read_text(encoding="utf-8")


class _Acting(HTMLParser):
    """Whatever a browser would run, were there no policy."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag in {"script", "iframe", "object", "embed", "base", "link"}:
            self.found.append(tag)
        for name, value in attrs:
            if name.startswith("on") or (value or "").strip().lower().startswith("javascript:"):
                self.found.append(f"{tag} {name}={value}")


def without_script(page: str) -> str:
    """The rest of a page, once it is sure that nothing but our script can run in it."""
    own = f"<script>{SCRIPT}</script>"
    digest = b64encode(sha256(SCRIPT.encode()).digest()).decode()
    policies = re.findall(r'http-equiv="Content-Security-Policy" content="([^"]*)"', page)
    assert len(policies) == 1
    assert f"default-src 'none'; script-src 'sha256-{digest}'; style-src" in policies[0]
    assert page.count(own) == 1
    acting = _Acting()
    acting.feed(page)
    assert acting.found == ["script"]
    return page.replace(own, "")
