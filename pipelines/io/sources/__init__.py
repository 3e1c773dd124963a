"""Sources that never end: what they have in common, and how files and topics are followed."""
