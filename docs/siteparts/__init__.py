"""The parts of the site that are made from the code: each module writes the Markdown of one page of reference."""
