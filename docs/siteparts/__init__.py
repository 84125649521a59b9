"""The parts of the site that are made from code: each module writes one page of reference."""
