"""Capacity plans and acceptance: what follows from the bounds of finished runs."""
