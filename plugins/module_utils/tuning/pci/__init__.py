"""Read NUMA nodes, cores, GPUs and NICs, and compare their places."""
