"""Write profiles from machines, and the report of a pilot run."""
