"""Results at rest: a directory of Parquet that many runs are added to, and that SQL is asked of."""
