"""Read the health of GPUs, links, PCI Express and mounts, in children that may hang."""
