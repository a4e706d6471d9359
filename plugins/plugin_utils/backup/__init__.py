"""Collect and open backups of Slurm, and plan a restore."""
