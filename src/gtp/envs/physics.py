"""The simulator as D4RL had it: current MuJoCo with the capsule inertia of the old one."""

from __future__ import annotations

import importlib.util
from importlib.metadata import version as version_of
from pathlib import Path
from types import ModuleType

import numpy as np

from gtp.errors import UserError

ROBOTICS = "gymnasium-robotics"
"""The package whose models of the Adroit hand and the kitchen are used."""


def mujoco() -> ModuleType:
    """MuJoCo, imported only when a simulator is really needed."""
    try:
        return importlib.import_module("mujoco")
    except ImportError:
        raise UserError(
            'This environment needs MuJoCo, which is not installed: pip install "gtp[mujoco]".'
        ) from None


def version() -> str:
    """What scores say of the physics they were taken in."""
    return f"d4rl-capsule mujoco {mujoco().__version__}"


def asset(name: str) -> str:
    """The text of one of the robot descriptions that come with gymnasium."""
    import gymnasium

    return (Path(gymnasium.__file__).parent / "envs" / "mujoco" / "assets" / name).read_text()


def robotics_version() -> str:
    """What scores say of the physics of D4RL's hand and kitchen."""
    return f"d4rl-mpr mujoco {mujoco().__version__}, models of gymnasium-robotics {version_of(ROBOTICS)}"


def robotics_model(name: str):
    """Compile one of the models that come with gymnasium-robotics, which is itself not imported.

    Its convex shapes meet by the algorithm D4RL's simulator had, MPR, not by MuJoCo's own of today. What is
    only to be seen is left out: that is 99 parts of a hundred, and there may be hundreds of hands at once.
    """
    found = importlib.util.find_spec("gymnasium_robotics")
    if found is None or found.origin is None:
        raise UserError(
            'This environment needs gymnasium-robotics, which is not installed: pip install "gtp[robotics]".'
        )
    mj = mujoco()
    spec = mj.MjSpec.from_file(str(Path(found.origin).parent / "envs" / "assets" / name))
    for site in spec.sites:
        site.material = ""
    spec.compiler.discardvisual = True
    model = spec.compile()
    model.opt.disableflags |= mj.mjtDisableBit.mjDSBL_NATIVECCD
    return model


def compile_model(xml: str):
    """Compile a model whose capsules weigh what they weighed in the simulator that made D4RL.

    That simulator took a capsule's mass and inertia as those of a cylinder of the same radius r and of
    length L + r, L being the distance between the centres of the caps. Shapes and contacts stay capsules.
    """
    mj = mujoco()
    model = mj.MjModel.from_xml_string(xml)
    spec = mj.MjSpec.from_string(xml)
    for geom in spec.geoms:
        if geom.type == mj.mjtGeom.mjGEOM_CAPSULE:
            _become_cylinder(geom, mj.mjtGeom.mjGEOM_CYLINDER)
    heavy = spec.compile()
    for name in ("body_mass", "body_inertia", "body_ipos", "body_iquat"):
        getattr(model, name)[:] = getattr(heavy, name)
    mj.mj_setConst(model, mj.MjData(model))
    return model


def set_state(model, data, qpos: np.ndarray, qvel: np.ndarray) -> None:
    """Put a simulation into a state as if it began there, with everything derived from it up to date."""
    mj = mujoco()
    mj.mj_resetData(model, data)
    data.qpos[:], data.qvel[:] = qpos, qvel
    mj.mj_forward(model, data)


def _become_cylinder(geom, cylinder) -> None:
    """Turn a capsule of a model's description into the cylinder of length L + r around it."""
    radius = geom.size[0]
    start, end = geom.fromto[:3].copy(), geom.fromto[3:].copy()
    length = float(((end - start) ** 2).sum() ** 0.5)
    if length == length:  # Given by its two ends, else they are NaN.
        reach = (end - start) / length * radius / 2
        geom.fromto[:3], geom.fromto[3:] = start - reach, end + reach
    else:
        geom.size[1] += radius / 2
    geom.type = cylinder
