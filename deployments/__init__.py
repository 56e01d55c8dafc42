"""Ray Serve deployments, HTTP, models and index engines around the pipeline."""
