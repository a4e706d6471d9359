"""Save Slurm's database and state, prove the copies, and restore them."""
