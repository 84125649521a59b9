"""Turn a RunResult into the parts of a page: all numbers and sentences that templates place."""
