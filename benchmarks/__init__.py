"""How fast the joins are, next to PySpark SQL, DuckDB and plain Beam: data, contestants, measuring, report."""
