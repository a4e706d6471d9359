"""Compare the GPU software of a machine with the cluster file."""
