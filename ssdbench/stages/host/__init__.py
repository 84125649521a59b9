"""Run experiments over the host: the same workloads under one setting after another."""
