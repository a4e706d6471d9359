"""Record the results of a run as JSON, table and page."""
