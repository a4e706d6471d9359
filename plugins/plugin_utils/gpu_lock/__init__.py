"""Read and write the lock of GPU software, and resolve with it."""
