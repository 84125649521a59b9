"""Draw plots with matplotlib, as SVG inside the page."""

import logging

from matplotlib import artist

# If the home directory cannot be written, matplotlib prints long warnings about its fonts.
logging.getLogger("matplotlib").setLevel(logging.ERROR)

# On import, matplotlib writes long docstrings, which takes a seventh of the time of a page. Skip
# them, as they are not needed.
_described = artist.kwdoc
artist.kwdoc = lambda artist: ""
try:
    import matplotlib.figure  # noqa: F401 - imports all of its artists
finally:
    artist.kwdoc = _described
