"""What is read and stored: frozen models, no I/O, no clock."""
