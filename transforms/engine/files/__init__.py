"""Files on any file system that Beam knows, those of stores of objects by clients of its own, and claims on them."""
