"""Runtimes that keep a topology running on many machines, from the folder that `lbgen export` writes for them."""
