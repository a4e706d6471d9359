"""Set up and compare RDMA devices: names, addresses, priorities, links."""
