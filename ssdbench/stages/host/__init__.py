"""Compare settings of the host: run the same workloads under one setting after another."""
