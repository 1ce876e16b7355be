"""Clients that people use do their everyday work through every engine, and get what endpoints give them directly."""
