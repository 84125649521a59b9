"""Run standard tests in the style of SNIA's PTS; docs/pts.md names the differences."""
