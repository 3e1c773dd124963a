"""Unbounded input: turns at the end of ticks, and what a partition remembers between them."""
