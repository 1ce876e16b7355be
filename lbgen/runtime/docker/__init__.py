"""Stacks as containers, on the docker SDK for Python."""
