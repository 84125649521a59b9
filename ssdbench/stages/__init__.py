"""Measure a drive: each module has one kind of stage, that is, one step of a run."""
