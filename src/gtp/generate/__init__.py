"""Datasets made anew: behaviour policies in D4RL's physics, OGBench's oracles, and a SAC of our own."""

from gtp.generate.make import make, validation_path
from gtp.generate.official import compare, summarise
from gtp.generate.recipes import full_name, names

__all__ = ["compare", "full_name", "make", "names", "summarise", "validation_path"]
