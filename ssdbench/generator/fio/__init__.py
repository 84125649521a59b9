"""Use fio as the generator of workloads."""
