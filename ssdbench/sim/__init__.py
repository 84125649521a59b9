"""Run a simulated drive in user space, and read the model files that describe drives."""
