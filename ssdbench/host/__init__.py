"""Access the operating system; no other package of ssdbench does so."""
