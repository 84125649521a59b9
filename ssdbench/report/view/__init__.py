"""RunResult to page: all arithmetic and all wording ends here, before any template is filled."""
