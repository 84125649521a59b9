"""Boot a Linux guest in QEMU, give it disks, and run commands in it."""
