"""What the site makes from the code: each module writes the Markdown of one page of reference."""
