"""Run commands, write files and describe findings. Every room may use these modules."""
