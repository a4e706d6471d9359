"""The agent of a node: read, judge, write the verdict, report it to Slurm, keep evidence."""
