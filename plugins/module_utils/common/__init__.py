"""Run commands, write files, and describe findings; every room may use these."""
