"""Delta Lake tables: their Change Data Feed, and tables that results are merged into."""
