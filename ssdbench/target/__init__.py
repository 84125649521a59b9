"""The device under test."""
