"""Write sysctl and other kernel settings that a reboot resets."""
