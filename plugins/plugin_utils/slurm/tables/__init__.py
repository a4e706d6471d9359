"""Tables of Slurm's options, their values, and effects of a change."""
