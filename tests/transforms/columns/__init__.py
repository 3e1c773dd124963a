"""The operators on columns, held against the pure cores."""
