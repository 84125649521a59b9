"""Run stages, without knowing any kind of stage by name."""
