"""Make dated snapshots of repositories, compare them, and promote them."""
