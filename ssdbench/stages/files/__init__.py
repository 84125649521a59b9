"""Make a file system on the drive, and compare variants on its files."""
