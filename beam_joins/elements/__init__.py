"""The elements of tables and streams: changes, windows, combined keys, and their event times."""
