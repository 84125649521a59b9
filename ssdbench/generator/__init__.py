"""Send the I/O of workloads: by fio, by the in-kernel generator ssdb_slam, or from traces."""
