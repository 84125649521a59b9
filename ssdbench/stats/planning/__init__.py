"""Make capacity plans and judge targets from the bounds of finished runs."""
