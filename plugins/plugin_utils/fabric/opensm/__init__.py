"""Write OpenSM's files, and compare the subnet managers with the plan."""
