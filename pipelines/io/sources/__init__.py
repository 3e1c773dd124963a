"""Sources that never end: their common base, and how files and topics are followed."""
