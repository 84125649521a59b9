"""Run standard tests in the style of SNIA's PTS; docs/pts.md says what was not checked."""
