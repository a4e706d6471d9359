"""Change and compare tokens on the kernel command line."""
