"""Probes of a drive's inner structure; each measures in a module of its own."""
