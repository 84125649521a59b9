"""Make a run from a profile and a target.

`request` holds the user's request, `assemble` makes the stages, `plan` estimates their time and
bytes and touches nothing, `run` claims the target and measures.
"""
