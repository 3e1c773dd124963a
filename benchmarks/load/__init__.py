"""What the joins do under load: large histories, hot keys, large values, many columns, many files."""
