"""Describe the drive under test, decide whether it may be overwritten, and claim it."""
