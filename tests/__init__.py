"""Tests, in the rooms of the project."""
