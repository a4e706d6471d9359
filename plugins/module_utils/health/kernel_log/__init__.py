"""Read the kernel's log from a cursor, and recognise errors of drivers."""
