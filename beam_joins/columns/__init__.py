"""Columns of keys and positions: order, search and comparison."""
