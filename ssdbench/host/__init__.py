"""Access the operating system; only this package does."""
