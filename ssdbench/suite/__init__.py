"""Makes a run of a profile and a target.

`request` is what the user wants, `assemble` makes the stages of it, `plan` says what they would
take and touches nothing, `run` claims the target and measures.
"""
