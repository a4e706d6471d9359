"""Compare the state that Slurm reports with the cluster file."""
