"""Stored runs in forms for other programs."""
