"""Many drives on many hosts: who is measured where, how many at once, and how it stands."""
