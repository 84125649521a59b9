"""Things that apply a workload."""
