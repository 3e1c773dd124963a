"""PostgreSQL: tables by a replication slot, and tables that results are merged into."""
