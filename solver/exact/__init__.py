"""General solvers behind one interface: their traps stay in here (docs/exact-models.md)."""
