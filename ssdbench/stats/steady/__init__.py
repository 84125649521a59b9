"""Judge steady state: the rules, how a repeat settles, and how long it is measured."""
