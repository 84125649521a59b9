"""Experiments over the host: the same workloads under one setting after another."""
