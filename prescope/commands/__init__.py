"""The commands, one file each. Everything heavy is imported inside the functions."""
