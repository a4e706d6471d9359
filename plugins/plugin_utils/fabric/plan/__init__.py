"""Plan a fabric from the cluster file, and check the plan."""
