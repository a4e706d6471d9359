"""Plan how pending changes roll over the nodes, and judge the result."""
