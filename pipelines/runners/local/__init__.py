"""An engine of this package that evaluates bounded pipelines on this machine, without Beam's portable runners."""
