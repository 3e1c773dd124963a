"""Writes results that appear complete or not at all, and merges that count once: locks, hidden attempts, marks, and counts."""
