"""Plan how pending changes roll over the compute nodes: what is pending, in which batches, within which limits."""
