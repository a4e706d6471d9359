"""Collect a backup of Slurm on the control node, open and check one, and plan its restore."""
