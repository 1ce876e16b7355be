"""Engines and stand-in endpoints as processes of this host."""
