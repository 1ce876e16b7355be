"""Faults during a load: what clients see of each fault over time, on each engine."""
