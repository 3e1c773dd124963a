"""How the operators run in Beam: one engine, :mod:`beam_joins.transforms.engine.replay`, and one thin PTransform per file."""
