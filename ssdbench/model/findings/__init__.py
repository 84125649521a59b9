"""Declare every kind of finding once, with its code, its numbers and its sentence."""
