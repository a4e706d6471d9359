"""Read the hardware and the software of a machine for reports."""
