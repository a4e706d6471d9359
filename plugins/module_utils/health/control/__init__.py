"""The controller's part: decide which reported nodes are drained, held and resumed."""
