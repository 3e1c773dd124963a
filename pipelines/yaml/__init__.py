"""The transforms, readers and writers of tables for Beam YAML: rows of Beam schemas in and out."""
