"""Describe, guard and claim the device under test."""
