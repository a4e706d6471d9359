"""Read Slurm's files, and test them with the real slurmctld."""
