"""Turn a RunResult into the parts of a page; all numbers and sentences are made here.

The templates then only place them.
"""
