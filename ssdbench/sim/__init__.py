"""The simulated drive's user-space fronts and model files."""
