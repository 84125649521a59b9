"""Draw plots with matplotlib, as SVG inside the page."""

import logging

from matplotlib import artist

# matplotlib prints long warnings about its font cache if the home directory cannot be written.
logging.getLogger("matplotlib").setLevel(logging.ERROR)

# On import, matplotlib generates long docstrings, which takes a seventh of the time of a page. Skip
# them, as they have no use here.
_described = artist.kwdoc
artist.kwdoc = lambda artist: ""
try:
    import matplotlib.figure  # noqa: F401 - imports all of its artists
finally:
    artist.kwdoc = _described
