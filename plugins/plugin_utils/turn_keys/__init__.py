"""Plan and record how Slurm's keys are replaced under running jobs."""
