"""Keep nodes, partitions and lines that running jobs need."""
