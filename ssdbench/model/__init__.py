"""Define all data that ssdbench reads and stores, as frozen models without I/O and clock."""
