"""Touch the operating system: the only package that does."""
