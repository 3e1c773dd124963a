"""The PTransforms, one thin file each, over one engine, :mod:`beam_joins.transforms.engine.stages.replay`."""
