"""Changelogs and Parquet in files: readers and writers."""
