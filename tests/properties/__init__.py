"""The law as properties: what must hold for every input, tried on generated ones."""
