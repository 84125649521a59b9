"""Figures: functions from a view to a matplotlib Figure, and from there to inline SVG."""

import logging

# Where no home can be written, it says at length that it keeps its fonts elsewhere.
logging.getLogger("matplotlib").setLevel(logging.ERROR)
