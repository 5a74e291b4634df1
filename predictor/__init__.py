"""Activations to expected demand per layer and expert."""
