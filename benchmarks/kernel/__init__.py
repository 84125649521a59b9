"""Experiments with the kernel modules, in guests whose time is counted in instructions."""
