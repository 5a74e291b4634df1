"""Exact models of an instance for general solvers; each imports its solver only when it is used."""
