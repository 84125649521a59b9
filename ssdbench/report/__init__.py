"""From a stored run to pages and tables; never measures."""
