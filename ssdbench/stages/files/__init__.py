"""Run experiments on a file system that is made on the drive."""
