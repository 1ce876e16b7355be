"""Active health checks for engines that have none of their own: endpoints are asked, engines told."""
