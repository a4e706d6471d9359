"""Plan the CPUs of interrupts, and compare isolated CPUs."""
