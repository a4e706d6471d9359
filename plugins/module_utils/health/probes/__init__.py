"""Read GPUs, links, PCI Express and mounts in bounded children."""
