"""Generative Trajectory Policies and their peers, in JAX."""

__version__ = "0.1.0"
