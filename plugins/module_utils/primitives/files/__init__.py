"""Write, record and remove files of this machine."""
