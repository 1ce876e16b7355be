"""A user's own topology under test: its requests, its times and its faults, on all engines at once."""
