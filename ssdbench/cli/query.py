"""`ssdbench query`."""

from ssdbench.cli.store import query as command

__all__ = ["command"]
