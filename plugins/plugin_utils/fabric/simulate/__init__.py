"""Prove a plan with ibsim, the real OpenSM and slurmctld."""
