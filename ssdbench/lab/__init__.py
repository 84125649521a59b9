"""Boot and drive a QEMU guest."""
