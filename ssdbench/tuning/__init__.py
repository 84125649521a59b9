"""Change host settings, each with a reason, and record the old value before the change."""
