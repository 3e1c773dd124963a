"""Who is measured: each a program that reads Parquet files and writes Parquet files."""
