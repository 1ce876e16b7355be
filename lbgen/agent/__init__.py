"""Active health checks for engines that have none: probes endpoints and updates the engine."""
