"""A policy file on a Spot: the practice robot by default, a real one with --hostname (read docs/hardware.md first)."""

from __future__ import annotations

import argparse
from contextlib import nullcontext
from pathlib import Path
from typing import Any

from adc_wrappers import make_env
from adc_wrappers.policy import check_env, load

POLICY = Path(__file__).parent / "policies" / "spot_handstand.onnx"


def rollout(env: Any, policy: Any, steps: int) -> dict[str, Any]:
    """Gymnasium's loop, on a robot."""
    observation, info = env.reset(seed=0)
    for _ in range(steps):
        observation, _, terminated, truncated, info = env.step(policy(observation))
        if terminated or truncated:
            break
    return info


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--hostname", help="address of a robot; without it, a practice robot is started")
    parser.add_argument("--stiffness", type=float, help="commanded stiffness of a robot")
    parser.add_argument("--damping", type=float, help="commanded damping of a robot")
    parser.add_argument("--steps", type=int, default=200)
    options = parser.parse_args()
    policy = load(POLICY)
    settings: dict[str, Any] = {
        "hostname": options.hostname,
        "stiffness": options.stiffness,
        "damping": options.damping,
    }
    robot: Any = nullcontext()
    if options.hostname is None:
        from adc_wrappers.spot_sim import PracticeRobot

        robot = PracticeRobot(clock="lockstep")
    with robot as practice:
        if practice is not None:
            login = (practice.username, practice.password)
            gains = policy.metadata
            settings = {
                "hostname": practice.hostname, "port": practice.port, "certificate": practice.certificate,
                "credentials": lambda: login, "clock": "lockstep",
                "stiffness": gains.simulated_stiffness, "damping": gains.simulated_damping,
            }  # fmt: skip
        env = make_env("spot-handstand", backend="spot", preset="cpu", **settings)
        try:
            check_env(policy, env, gains=False)  # a robot is commanded its own
            info = rollout(env, policy, options.steps)
        finally:
            env.close()  # motors are confirmed off, or this raises
    print("in the stance" if info["holds"] else "not in the stance", info.get("guard", ""))


if __name__ == "__main__":
    main()
