"""How the operators run in Beam: one engine, :mod:`beam_joins.transforms.replay`, and one thin PTransform per file."""
