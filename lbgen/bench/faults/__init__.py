"""Faults while a load goes on: what clients see of each, over time, on each engine."""
