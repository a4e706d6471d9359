"""Back up a running Slurm into encrypted files, and restore it."""
