"""Slurm's and the limiter's figures as a text for Prometheus."""
