"""Make a run from a profile and a target.

`request` holds the user's request, `assemble` makes the stages, `plan` estimates their time and
bytes without changing anything, and `run` claims the target and measures it.
"""
