"""Read and write the record of machines: serial numbers, MACs, system disks and fingerprints."""
