"""Where tables are written to, other than files."""
