"""Define everything that is read and stored, as frozen models without I/O and clock."""
