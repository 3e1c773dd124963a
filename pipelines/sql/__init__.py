"""SQL files: tables that are read, and views that are kept and written."""
