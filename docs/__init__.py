"""The documents, and what makes the site of them (conf.py)."""
