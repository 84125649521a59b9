"""Provide the command line; each sub-command has its own module."""
