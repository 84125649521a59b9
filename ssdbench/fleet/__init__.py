"""Measure many drives on many hosts: choose the drives, keep to the limits, show the status."""
