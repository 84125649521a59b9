"""Apply workloads: fio, the in-kernel generator, and traces."""
