"""Every kind of finding, declared once: its code, its numbers and its words."""
