"""Find the inner structure of a drive: block size, write buffer, stripes, spare area, caches."""
