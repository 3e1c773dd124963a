"""TPC-H: its orders and customers as changelogs, and its queries as views over refreshes."""
