"""Write sysctl and other settings that a boot forgets."""
