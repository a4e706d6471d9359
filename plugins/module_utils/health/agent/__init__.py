"""Judge one node, publish its verdict, and report it to Slurm."""
