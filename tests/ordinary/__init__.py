"""Topologies that people run every day; each has to run on every L7 engine as it stands."""
