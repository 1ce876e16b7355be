"""Verification of a user's topology: its requests, timeouts and faults on all engines at once."""
