"""Read traces of block I/O in several formats, summarize them, and turn them into fio jobs."""
