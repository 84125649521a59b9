"""Read traces of block I/O in several formats, summarize them, and make fio's work of them."""
