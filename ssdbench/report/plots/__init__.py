"""Figures: functions from a view to a matplotlib Figure, and from there to inline SVG."""

import logging

from matplotlib import artist

# Where no home can be written, it says at length that it keeps its fonts elsewhere.
logging.getLogger("matplotlib").setLevel(logging.ERROR)

# At its import it writes into docstrings what may be set of each class, for a seventh of the time
# that a page takes. Nobody reads them here.
_described = artist.kwdoc
artist.kwdoc = lambda artist: ""
try:
    import matplotlib.figure  # noqa: F401 - with all that it draws
finally:
    artist.kwdoc = _described
