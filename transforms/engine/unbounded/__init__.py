"""Unbounded input: turns at the end of ticks, and the states of partitions between them."""
