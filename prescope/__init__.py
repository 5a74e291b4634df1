"""Predictive cross-layer scheduling of Mixture-of-Experts inference."""
