"""Compare files, units, packages and names of a machine with bedplate's."""
