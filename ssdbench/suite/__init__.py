"""From a profile and a target to a run.

`asked` is what the user wants, `assemble` makes the stages of it, `plan` says what they would take
and touches nothing, `run` claims the target and measures.
"""
