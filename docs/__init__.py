"""The documents, and the code that makes their site (conf.py)."""
