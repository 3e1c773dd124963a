"""Converts between values, their texts and the types of Arrow, JSON, Avro, Kafka Connect, PostgreSQL and each target."""
