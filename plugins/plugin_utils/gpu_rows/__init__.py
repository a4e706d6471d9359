"""A site's own rows of the GPU table, and notices by rows."""
