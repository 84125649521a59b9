"""Run the simulated drive in user space, and read its model files."""
