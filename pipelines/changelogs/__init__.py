"""Reads changelogs as tables: finds their files, looks into them, and reads them in parts or as they grow."""
