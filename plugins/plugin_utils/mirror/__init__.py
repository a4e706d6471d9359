"""List the packages that GPU nodes need, and mirror them."""
