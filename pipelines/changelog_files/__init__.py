"""Changelogs in files: found, read in parts, and results written that appear whole or not at all."""
