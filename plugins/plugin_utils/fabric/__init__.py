"""Check the variables of the fabric's playbooks."""
