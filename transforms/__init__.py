"""How the operators run in Beam: one engine, :mod:`transforms.replay`, and one thin PTransform per file."""
