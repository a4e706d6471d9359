"""Decide packages, files and units of the role rdma."""
