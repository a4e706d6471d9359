"""Compare node hardware and the shared state directory with Slurm's configuration."""
