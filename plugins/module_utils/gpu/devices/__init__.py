"""Read the GPUs and NVSwitches of a machine."""
