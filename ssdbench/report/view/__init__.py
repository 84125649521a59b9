"""Turn a RunResult into a page: all arithmetic and all wording, before a template is filled."""
