"""Make a run from a profile and a target: `assemble` the stages, `plan` or `run` them."""
