"""Golden pictures of a page, section by section, and what the page says where none can be drawn.

A picture is kept at half its size with 16 levels of each colour, as lossless WebP: all pictures
together stay below a few MB. A new one is halved and compared with it pixel by pixel: text that
moved by a pixel, or a colour that changed by a tenth, is thousands of pixels or a whole area.
`nox -s pictures` makes them again.
"""

import io
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

import html5lib
import matplotlib
import numpy as np
import numpy.typing as npt
from PIL import Image

from tests.support.chromium import Box, Browser, Look
from tests.support.goldens import GOLDEN

KEPT = GOLDEN / "pages"
PIN = KEPT / "drawn-by.json"
LEVEL = 16  # of 256, between two levels of a kept colour
TOLERANCE = LEVEL // 2 + 8  # what keeping may have changed, and a twentieth of white
MOST_PIXELS = 16  # of a halved section that may differ by more
ROWS = 24  # of a table that are kept as words
MORE_LOOKS = 2
TALLEST = 4_000  # pixels of a section that are kept: beyond are more rows of the same

Pixels = npt.NDArray[np.uint8]
OPENED = "document.querySelectorAll('details').forEach(d => { d.open = true })"
SECTIONS = """[...document.querySelectorAll('main > section, footer')].map(s =>
  [s.id || (s.querySelector('div[id]') || {}).id || s.className || s.tagName,
   s.getBoundingClientRect().top + scrollY])"""
SAMPLE = """<!DOCTYPE html><meta charset="utf-8"><style>:root { %s }
body { margin: 8px; font: 16px/1.5 var(--sans) } pre { font: 13px var(--mono) }</style>
<p>Plan on this or less: 1,234,567,890 IOPS</p><p><b>NOT VALIDATED</b> µ – × ≤ ±</p>
<pre>fio --output-format=json+</pre>"""
PICTURE_OF_SAMPLE = Box(0, 0, 400, 150)


@dataclass(frozen=True, slots=True)
class Section:
    """A part of a page from its heading to the next one."""

    name: str
    box: Box


def sections(page: Browser, look: Look) -> list[Section]:
    """All of a page, cut where its sections begin."""
    found = [(str(name), int(top)) for name, top in page.evaluate(SECTIONS)]
    tops = [("head", 0), *found[1:]]  # the first section is the verdict, which belongs to the head
    ends = [*(top for _, top in tops[1:]), page.height()]
    return [
        Section(_file_name(name), Box(0, top, look.width, min(end - top, TALLEST)))
        for (name, top), end in zip(tops, ends, strict=True)
        if end > top
    ]


def _file_name(name: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")


def drawn(page: Browser, section: Section) -> Pixels:
    """A section at half its size."""
    with Image.open(io.BytesIO(page.picture(section.box))) as full:
        return np.asarray(full.convert("RGB").reduce(2))


def few_levels(pixels: Pixels) -> Pixels:
    """The colours that are kept."""
    levels = (pixels.astype(np.int16) + LEVEL // 2) // LEVEL * LEVEL
    return np.minimum(levels, 255).astype(np.uint8)


def differing(new: Pixels, kept: Pixels) -> int:
    """Pixels that differ by more than the tolerance; all of them when the sizes differ."""
    if new.shape != kept.shape:
        return max(new.size, kept.size) // 3
    apart = np.abs(new.astype(np.int16) - kept.astype(np.int16)).max(axis=2)
    return int((apart > TOLERANCE).sum())


def compared(page: Browser, run: str, look: Look) -> list[str]:
    """A sentence for each section that does not look as it is kept; the page is open."""
    place = KEPT / run / look.name
    faults, seen = [], set()
    for section in sections(page, look):
        path = place / f"{section.name}.webp"
        seen.add(path.name)
        if not path.exists():
            faults.append(f"{path} does not exist: the section is new")
            continue
        with Image.open(path) as image:
            kept = np.asarray(image.convert("RGB"))
        new = drawn(page, section)
        for _ in range(MORE_LOOKS):  # a busy host may show a part that is not painted yet
            if differing(new, kept) <= MOST_PIXELS:
                break
            new = drawn(page, section)
        if (pixels := differing(new, kept)) > MOST_PIXELS:
            shapes = "" if new.shape == kept.shape else f", {_size(kept)} before, {_size(new)} now"
            faults.append(f"{run}, {look.name}, {section.name}: {pixels:,} pixels differ{shapes}")
    gone = sorted({path.name for path in place.glob("*.webp")} - seen)
    return faults + [
        f"{run}, {look.name}: {name} is kept, and the section is gone" for name in gone
    ]


def keep(page: Browser, run: str, look: Look) -> None:
    """Keep what the open page looks like, in place of what was kept."""
    place = KEPT / run / look.name
    place.mkdir(parents=True, exist_ok=True)
    old = set(place.glob("*.webp"))
    for section in sections(page, look):
        path = place / f"{section.name}.webp"
        new = drawn(page, section)
        while differing(new, again := drawn(page, section)):  # it was not painted whole
            new = again
        old.discard(path)
        if path.exists():
            with Image.open(path) as image:
                if differing(new, np.asarray(image.convert("RGB"))) <= MOST_PIXELS:
                    continue  # the same bytes stay, so that a renewal shows what changed
        Image.fromarray(few_levels(new)).save(path, "WEBP", lossless=True, quality=80, method=5)
    for path in old:
        path.unlink()


def _size(pixels: Pixels) -> str:
    return f"{2 * pixels.shape[1]} x {2 * pixels.shape[0]}"


def shown(page: Browser, path: Path, look: Look) -> None:
    """Open a page as it is kept: on a dark screen and a phone with everything unfolded."""
    page.open(path, look)
    if look.dark or look.phone:
        page.evaluate(OPENED)


def drawn_by(page: Browser, place: Path, style: str) -> dict[str, str]:
    """What pictures depend on: the browser, how it draws a sample in the page's fonts, figures."""
    fonts = re.findall(r"--(?:sans|mono): [^;]+;", style)
    path = place / "sample.html"
    path.write_text(SAMPLE % " ".join(fonts), encoding="utf-8")
    page.open(path)
    picture = np.asarray(Image.open(io.BytesIO(page.picture(PICTURE_OF_SAMPLE))).convert("RGB"))
    return {
        "browser": page.version(),
        "sans": page.font("p"),
        "mono": page.font("pre"),
        "figures": f"matplotlib {matplotlib.__version__}",
        "sample": sha256(picture.tobytes()).hexdigest()[:16],
    }


def pinned() -> dict[str, str]:
    """By what the kept pictures were drawn."""
    found: dict[str, str] = json.loads(PIN.read_text(encoding="utf-8"))
    return found


def pin(drawn_by: dict[str, str]) -> None:
    """Remember by what the kept pictures are drawn."""
    KEPT.mkdir(parents=True, exist_ok=True)
    PIN.write_text(json.dumps(drawn_by, indent=1) + "\n", encoding="utf-8")


def structure(text: str) -> str:
    """What a page says, line by line: headings, first screen, figures, heads and rows of tables."""
    root = html5lib.HTMLParser(strict=True, namespaceHTMLElements=False).parse(text)
    return "\n".join(_lines(root)) + "\n"


def _lines(element: Any) -> Iterator[str]:
    tag = element.tag if isinstance(element.tag, str) else ""
    if tag in ("style", "script", "svg", "pre") or tag.startswith("{"):
        return
    if tag in (
        "h1",
        "h2",
        "h3",
        "p",
        "li",
        "dt",
        "dd",
        "caption",
        "summary",
        "figcaption",
        "title",
    ):
        yield f"{tag}: {_words(element)}"
        return
    if tag == "tbody":
        rows = [f"  | {' | '.join(_words(cell) for cell in row)}" for row in element]
        yield from rows[:ROWS]
        if len(rows) > ROWS:
            digest = sha256("\n".join(rows).encode()).hexdigest()[:16]
            yield f"  ... {len(rows):,} rows in all, {digest}"
        return
    if tag == "thead":
        yield f"  # {' | '.join(_words(row) for row in element)}"
        return
    if tag == "section":
        yield f"section {element.get('id') or element.get('class')}"
    if element.get("role") == "img":
        yield f"img: {element.get('aria-label')}"
    for child in element:
        yield from _lines(child)


def _words(element: Any) -> str:
    return " ".join("".join(element.itertext()).split())
