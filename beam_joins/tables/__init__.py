"""Tables: batches of changes, the raw changelogs that make them, and the rows that they keep."""
