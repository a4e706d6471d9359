"""Record what a run did on each host, and write it as JSON, as a table and as a page."""
