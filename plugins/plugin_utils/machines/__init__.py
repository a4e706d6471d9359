"""Read and write the record of machines beside the cluster file."""
