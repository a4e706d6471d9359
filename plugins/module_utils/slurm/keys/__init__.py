"""Replace a key of Slurm on all machines at once."""
