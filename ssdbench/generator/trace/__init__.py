"""Traces of block I/O: read in whatever form, told in numbers, made into work for fio."""
