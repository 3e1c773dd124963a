"""Reads change events in the envelopes of CDC tools: Debezium, wal2json, Maxwell."""
