"""Compare the planned fabric with the discovered one."""
