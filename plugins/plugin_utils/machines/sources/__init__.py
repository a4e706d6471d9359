"""Import machines from CSV, NetBox, MAAS, Warewulf and Ironic."""
