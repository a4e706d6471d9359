"""Run commands, write files and describe findings, for every room."""
