"""Links to files of the repository that are no page of the site: their paths, as code."""

import re
from pathlib import Path

LINK = re.compile(r"(?<!!)\[([^\]]+)\]\(((?!https?:|#)[^)#\s]+)(#[^)]*)?\)")


def as_paths(text: str, page: Path, docs: Path) -> str:
    """The text of a page with such links replaced; `page` is where it is stored."""

    def shown(link: re.Match[str]) -> str:
        leads_to = (page.parent / link[2]).resolve()
        if leads_to.is_relative_to(docs):
            return link[0]
        path = leads_to.relative_to(docs.parent)
        return (
            f"`{path}`" if link[1].strip("`") in (str(path), link[2]) else f"{link[1]} (`{path}`)"
        )

    return LINK.sub(shown, text)
