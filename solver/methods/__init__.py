"""One planning method per file, found through `prescope.solver.registry`."""
