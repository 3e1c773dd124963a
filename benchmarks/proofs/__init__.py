"""Tests and figures of record, rebuilt and run here: ``python -m benchmarks.proofs``."""
