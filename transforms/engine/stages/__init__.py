"""The stages of a pipeline: records routed to their partitions, and the replay of each."""
