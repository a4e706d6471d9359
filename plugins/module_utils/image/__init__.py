"""Build disk images of nodes, and the medium that starts the installer."""
