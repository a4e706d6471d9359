"""Read the kernel's log from a cursor, and recognise what drivers write there."""
