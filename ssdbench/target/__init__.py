"""Describe, guard and claim the drive under test."""
