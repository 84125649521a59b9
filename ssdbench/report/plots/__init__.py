"""Figures: functions from a view to a matplotlib Figure, and from there to inline SVG."""
