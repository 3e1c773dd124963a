"""Starts jobs on Spark and Flink: Java, jars, the job server, worker processes."""
