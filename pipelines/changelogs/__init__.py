"""Finds the files of changelogs, looks into them, and reads them in parts."""
