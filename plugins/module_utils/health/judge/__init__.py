"""Judge a node's health from readings and events, without any I/O."""
