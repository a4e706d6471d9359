"""List the parts that verify compares on a machine."""
