"""Read port names of RoCE switches as port numbers of the plan."""
