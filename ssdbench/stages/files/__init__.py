"""Make a file system on the drive, and compare settings of the host on files there."""
