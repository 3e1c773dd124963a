"""Writes results that appear complete or not at all: locks, hidden attempts, publication, and counts."""
