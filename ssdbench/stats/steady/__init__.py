"""Judge steady state: the rules, how a repeat settles, and how long a repeat is measured."""
