"""The saved problems: schema, read and write, library, builders and generators."""
