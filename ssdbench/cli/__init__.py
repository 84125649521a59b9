"""Provide the command line; each sub-command has a module of its own."""
