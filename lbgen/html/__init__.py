"""The report of a topology as one page without scripts and without anything from a network."""
