"""Boots and drives the QEMU guest."""
