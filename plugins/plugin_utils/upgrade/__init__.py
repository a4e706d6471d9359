"""Plan an upgrade of Slurm, and judge its result."""
