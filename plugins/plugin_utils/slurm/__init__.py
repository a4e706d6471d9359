"""Write Slurm's files, and guard running jobs against a change."""
