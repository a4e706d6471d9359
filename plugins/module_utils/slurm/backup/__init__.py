"""Back up Slurm's controller and database into an encrypted file while they run, and restore them from it."""
