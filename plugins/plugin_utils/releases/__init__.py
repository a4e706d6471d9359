"""Record of each release's defaults, and of renamed keys and variables."""
