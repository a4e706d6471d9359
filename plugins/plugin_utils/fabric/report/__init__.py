"""Write cable lists, pictures and pages of a plan."""
