"""Write Slurm's topology files from a fabric."""
