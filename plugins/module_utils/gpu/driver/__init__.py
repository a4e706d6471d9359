"""Prove that a driver compiles for the kernel that boots next."""
