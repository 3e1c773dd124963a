"""Kafka topics: records and change events."""
