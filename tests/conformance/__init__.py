"""The project held against what Kafka Streams answered to the same input; see README.md beside this file."""
