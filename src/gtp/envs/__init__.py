"""Environments with D4RL's physics; importing this registers them with gymnasium and loads no simulator."""

from gtp.envs import d4rl

d4rl.register()
