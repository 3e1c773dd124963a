"""The only parts of the engine that readers and writers may use."""
