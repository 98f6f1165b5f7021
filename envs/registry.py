"""The tasks of this library by name, and their Gymnasium ids."""

from __future__ import annotations

import dataclasses
import importlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import gymnasium as gym
from gymnasium.envs.registration import EnvSpec

from adc_wrappers.core.errors import CurriculumError, UnknownSettingError, did_you_mean
from adc_wrappers.core.reading import check_fields

from .task_env import TaskEnv, TaskVectorEnv

__all__ = [
    "SIMULATOR_OPTIONS",
    "TASKS",
    "TaskSpec",
    "find_task",
    "make_env",
    "make_vector_env",
    "register_gymnasium_ids",
]


@dataclass(frozen=True, kw_only=True)
class TaskSpec:
    """The place of a task and what it runs on; its module is imported when an env is made."""

    name: str
    """The name that :func:`make_env` and the command line take."""

    gymnasium_id: str
    """The name that ``gymnasium.make`` takes."""

    summary: str
    """One line for ``adc envs``."""

    backends: tuple[str, ...]
    """Engines that it runs on; the first is the default."""

    module: str
    """Module with the settings class and the factory."""

    settings: str
    """Name of the settings dataclass."""

    factory: str
    """Name of the function ``(backend, num_envs, settings) -> Task``."""

    action_scale: str
    """Name of the setting that is the action scale α."""

    robot_settings: str | None = None
    """``module:class`` of the settings that the backend ``"spot"`` takes beside the task's; None: it has none."""

    native: Mapping[str, str] = field(default_factory=dict)
    """Simulators that have an env of tensors of their own for the task: name to ``module:function``."""

    @property
    def simulators(self) -> tuple[str, ...]:
        """All that it runs on, in numpy or as tensors."""
        return (*self.backends, *self.native)

    def task_settings(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """Return settings without the options of a simulator of tensors, such as its device: what is of the task."""
        options = {name for simulator in self.native for name in SIMULATOR_OPTIONS[simulator]}
        return {name: value for name, value in values.items() if name not in options}

    def settings_on(self, backend: str, values: Mapping[str, Any]) -> dict[str, Any]:
        """Return settings of a run for another simulator, which knows nothing of the first one's options."""
        known = SIMULATOR_OPTIONS.get(backend, ()) if backend in self.native else ()
        own = self.task_settings(values)
        return {name: value for name, value in values.items() if name in own or name in known}

    def split_settings(self, backend: str, values: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return the task's settings, and those of the connection to a robot.

        A robot cannot be randomized, so there ``randomize`` is False unless it is asked for, which is refused.
        """
        if backend != "spot" or self.robot_settings is None:
            return values, {}
        module, name = self.robot_settings.split(":")
        known = {field.name for field in dataclasses.fields(getattr(importlib.import_module(module), name))}
        task = {"randomize": False, **{key: value for key, value in values.items() if key not in known}}
        return task, {key: value for key, value in values.items() if key in known}

    def settings_class(self) -> Any:
        """Return the settings dataclass."""
        return getattr(importlib.import_module(self.module), self.settings)

    def build_settings(self, values: dict[str, Any]) -> Any:
        """Return the task's settings; an unknown name raises with the nearest one."""
        settings = self.settings_class()
        known = [field.name for field in dataclasses.fields(settings)]
        for name in values:
            if name not in known:
                raise UnknownSettingError(
                    f"the task {self.name!r} has no setting {name!r}. {did_you_mean(name, known)}"
                )
        check_fields(settings, values, f"the task {self.name!r}", partial=True)
        return settings(**values)


SIMULATOR_OPTIONS: dict[str, tuple[str, ...]] = {
    "isaaclab": ("device", "engine", "source", "native_actuators", "seed"),
    "mjlab": ("device", "seed"),
}
"""What envs of tensors take beside the task's settings."""

_ROBOT_SETTINGS = "adc_wrappers.backends.spot.settings:SpotRobotSettings"

TASKS: dict[str, TaskSpec] = {
    "cartpole": TaskSpec(
        name="cartpole",
        gymnasium_id="ADC/CartPole-v0",
        summary="balance a pole on a cart that follows position commands (the paper's representative system)",
        backends=("pybullet", "analytic"),
        module="adc_wrappers.envs.cartpole",
        settings="CartPoleSettings",
        factory="make_cartpole_task",
        action_scale="command_limit",
    ),
    "double-cartpole": TaskSpec(
        name="double-cartpole",
        gymnasium_id="ADC/DoubleCartPole-v0",
        summary="balance two poles in series on a cart that follows position commands",
        backends=("analytic", "pybullet"),
        module="adc_wrappers.envs.cartpole",
        settings="DoubleCartPoleSettings",
        factory="make_double_cartpole_task",
        action_scale="command_limit",
    ),
    "spot-handstand": TaskSpec(
        name="spot-handstand",
        gymnasium_id="ADC/SpotHandstand-v0",
        summary="Spot from four feet to a handstand on its front feet (the paper's task)",
        backends=("mujoco", "pybullet", "spot"),
        module="adc_wrappers.envs.spot",
        settings="SpotSettings",
        factory="make_handstand_task",
        action_scale="action_scale",
        robot_settings=_ROBOT_SETTINGS,
        native={
            "isaaclab": "adc_wrappers.envs.spot_isaaclab:make_isaac_env",
            "mjlab": "adc_wrappers.envs.spot_mjlab:make_mjlab_env",
        },
    ),
    "spot-planar-handstand": TaskSpec(
        name="spot-planar-handstand",
        gymnasium_id="ADC/SpotPlanarHandstand-v0",
        summary="the handstand of a Spot in its plane of symmetry: four joints, minutes instead of hours",
        backends=("mujoco", "pybullet"),
        module="adc_wrappers.envs.spot",
        settings="SpotSettings",
        factory="make_planar_handstand_task",
        action_scale="action_scale",
    ),
    "spot-hindstand": TaskSpec(
        name="spot-hindstand",
        gymnasium_id="ADC/SpotHindstand-v0",
        summary="Spot from four feet to a stand on its hind feet",
        backends=("mujoco", "pybullet", "spot"),
        module="adc_wrappers.envs.spot",
        settings="SpotSettings",
        factory="make_hindstand_task",
        action_scale="action_scale",
        robot_settings=_ROBOT_SETTINGS,
    ),
}


def find_task(name: str) -> TaskSpec:
    """Return the task called ``name``; a mistyped name raises with the nearest one."""
    if name not in TASKS:
        raise CurriculumError(f"unknown task {name!r}. {did_you_mean(name, TASKS)}")
    return TASKS[name]


def make_env(
    task: str,
    *,
    backend: str | None = None,
    num_envs: int | None = None,
    render_mode: str | None = None,
    early_termination: bool = True,
    tensors: bool = True,
    **settings: Any,
) -> Any:
    """Make an env of this library.

    Args:
        task: Name of the task; ``adc envs`` lists them.
        backend: The engine; by default the task's first.
        num_envs: None for a ``gymnasium.Env``; a number for a ``gymnasium.vector.VectorEnv`` of so many. The backends
            ``"isaaclab"`` and ``"mjlab"`` give the simulator's own batch of tensors in either case, by default of 4096.
        render_mode: ``"rgb_array"``, ``"human"`` (single env) or None.
        early_termination: With False a failed episode goes on to its time limit; broken physics still ends it.
        tensors: Of a simulator of tensors: True for its own batch, False for a ``gymnasium.vector.VectorEnv`` of numpy
            arrays over it, such as the other backends give. These are not asked.
        **settings: The task's own settings, such as ``start_angle`` of the cart-pole; for ``"spot"`` also those of the
            connection, such as ``hostname``; for ``"isaaclab"`` also ``device``, ``engine`` and what else
            :func:`adc_wrappers.envs.spot_isaaclab.cfg.handstand_cfg` takes; for ``"mjlab"`` also ``device`` and
            ``seed``.

    Example:
        >>> envs = make_env("cartpole", backend="analytic", num_envs=16, start_angle=0.1)
        >>> envs.reset(seed=0)[0].shape
        (16, 4)
        >>> make_env("cartpol")
        Traceback (most recent call last):
        ...
        adc_wrappers.core.errors.CurriculumError: unknown task 'cartpol'. Did you mean 'cartpole'?
    """
    spec = find_task(task)
    chosen = spec.backends[0] if backend is None else backend
    if chosen not in spec.simulators:
        raise CurriculumError(f"the task {task!r} has no backend {chosen!r}. {did_you_mean(chosen, spec.simulators)}")
    if num_envs is not None and num_envs < 1:
        raise CurriculumError(f"num_envs: expected None or at least 1, got {num_envs}.")
    if chosen in spec.native:
        env = _make_native(spec, chosen, num_envs, render_mode, settings)
        env.unwrapped.task.early_termination = early_termination
        return env if tensors else _as_arrays(env)
    if chosen == "spot" and num_envs is not None:
        raise CurriculumError(
            f"a robot is one env, and does not reset by itself; got num_envs={num_envs}: leave num_envs out for the "
            "backend 'spot'."
        )
    own, robot = spec.split_settings(chosen, settings)
    built = spec.build_settings(own)
    factory = getattr(importlib.import_module(spec.module), spec.factory)
    instance = factory(chosen, 1 if num_envs is None else num_envs, built, **robot)
    instance.early_termination = early_termination
    if num_envs is None:
        env = TaskEnv(instance, render_mode)
        if chosen == "spot":
            env.spec = EnvSpec(spec.gymnasium_id, nondeterministic=True)
        return env
    return TaskVectorEnv(instance, render_mode)


def _make_native(
    spec: TaskSpec, backend: str, num_envs: int | None, render_mode: str | None, settings: dict[str, Any]
) -> Any:
    for name in settings:
        if name not in SIMULATOR_OPTIONS[backend]:
            spec.build_settings({name: settings[name]})  # a mistyped name is answered before the slow imports
    module, function = spec.native[backend].split(":")
    count = {} if num_envs is None else {"num_envs": num_envs}
    return getattr(importlib.import_module(module), function)(**count, render_mode=render_mode, **settings)


def _as_arrays(env: Any) -> Any:
    from .tensor_env import TensorTaskEnv

    return TensorTaskEnv(env)


def make_vector_env(
    task: str, *, backend: str, num_envs: int, settings: Mapping[str, Any], seed: int | None = None
) -> Any:
    """Make a ``gymnasium.vector.VectorEnv`` of numpy arrays, whatever the simulator.

    Args:
        task: Name of the task.
        backend: The simulator.
        num_envs: Number of envs.
        settings: Settings of the task and options of the simulator.
        seed: Seed of what a simulator of tensors draws when it is made; the others draw at the first reset.
    """
    known = dict(settings)
    if seed is not None and backend in find_task(task).native:
        known["seed"] = seed
    return make_env(task, backend=backend, num_envs=num_envs, tensors=False, **known)


def register_gymnasium_ids() -> None:
    """Register every task with Gymnasium, for ``gymnasium.make`` and ``gymnasium.make_vec``."""
    for spec in TASKS.values():
        if spec.gymnasium_id not in gym.registry:
            gym.register(
                id=spec.gymnasium_id,
                entry_point="adc_wrappers.envs.registry:_make_single",
                vector_entry_point="adc_wrappers.envs.registry:_make_vector",
                kwargs={"task": spec.name},
            )


def _make_single(task: str, render_mode: str | None = None, **settings: Any) -> Any:
    return make_env(task, render_mode=render_mode, **settings)


def _make_vector(task: str, num_envs: int = 1, render_mode: str | None = None, **settings: Any) -> Any:
    return make_env(task, num_envs=num_envs, render_mode=render_mode, **settings)
