"""Folders by which others run a topology: docker compose, a swarm, Kubernetes, systemd, the Gateway API.

One module for each target; `run.export` chooses it.
"""
