"""Read the output of discovery commands and OpenSM's log."""
