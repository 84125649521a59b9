"""Run the same workloads under one setting of the host after another, to compare settings."""
