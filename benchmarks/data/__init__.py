"""The input of the benchmarks: made up, the same every time, as Parquet files."""
