"""The model card of a shared policy, from what its file and its evaluation say."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from adc_wrappers.core.markdown import markdown_table
from adc_wrappers.core.markdown import plain_markdown as plain

if TYPE_CHECKING:
    from adc_wrappers.policy import Policy

__all__ = ["model_card"]

_HEAD = """---
library_name: adc-wrappers
tags:
- reinforcement-learning
- robotics
- actuator-dynamics-curriculum
- {task}
---"""


def model_card(policy: Policy, evaluation: dict[str, Any], repo: str, *, film: str | None = None) -> str:
    """Return the card in Markdown: task, gains, training, evaluation, film, and how the file is used.

    Args:
        policy: The policy.
        evaluation: Its evaluation at the target gains, as ``eval.json`` has it.
        repo: The repository, ``owner/name``.
        film: Name of the film beside the card.
    """
    config, metadata = policy.config, policy.metadata
    parts = [
        _HEAD.format(task=re.sub(r"[^\w-]", "-", config.task)),
        f"# {plain(config.task)}",
        "A policy trained under the Actuator Dynamics Curriculum: with joints that were stiff at first and were "
        "softened to the identified stiffness as it learned. Everything needed to run it is inside `policy.onnx`.",
    ]
    if film is not None:
        parts.append(f"![One episode at the target gains]({film})")
    parts += ["## Evaluation, at exactly the target gains", _evaluation(evaluation)]
    parts += ["## Gains", _gains(policy)]
    parts += ["## Training", markdown_table(("", ""), _training(policy))]
    parts += [
        "## Use",
        f"```sh\nadc pull {repo} --out policy.onnx\nadc view policy.onnx\nadc eval policy.onnx\n```",
        "Loading checks metadata and network against their digests; no pickle is read. The commanded gains are those "
        "of a robot, the simulated ones those of the simulator: they are two different numbers. On a robot, read the "
        "library's page on hardware first.",
        f"Network SHA-256: `{metadata.network_sha256}`, exported by adc-wrappers {plain(metadata.library_version)}.",
    ]
    return "\n\n".join(parts) + "\n"


def _evaluation(summary: dict[str, Any]) -> str:
    low, high = summary["success_95"]
    rows = [
        ("episodes", f"{summary['episodes']} in {summary['backend']}, seed {summary['seed']}"),
        ("success", f"{summary['success_rate']:.1%} (95 %: {low:.1%} to {high:.1%})"),
        ("episode length", f"{summary['length_mean']:.1f} ± {summary['length_std']:.1f} policy steps"),
        ("return", f"{summary['return_mean']:.1f} ± {summary['return_std']:.1f}"),
        ("how they ended", ", ".join(f"{mode}: {count}" for mode, count in summary["modes"].items() if count)),
    ]
    return markdown_table(("", ""), rows)


def _gains(policy: Policy) -> str:
    metadata = policy.metadata
    kinds = {
        "simulated K": metadata.simulated_stiffness,
        "simulated B": metadata.simulated_damping,
        "commanded K": metadata.commanded_stiffness,
        "commanded B": metadata.commanded_damping,
    }
    known = {name: values for name, values in kinds.items() if values is not None}
    rows = [
        (joint, *(f"{values[place]:.4g}" for values in known.values()))
        for place, joint in enumerate(metadata.joint_names)
    ]
    unknown = "" if len(known) == len(kinds) else "\n\nWhich gains a robot is to be sent is not known."
    return markdown_table(("joint", *known), rows) + unknown


def _training(policy: Policy) -> list[tuple[str, str]]:
    config, record = policy.config, policy.metadata.training
    curriculum = config.curriculum
    return [
        ("task", config.task),
        ("simulator", config.backend),
        ("trainer", config.trainer),
        ("env steps", f"{record.steps:,}"),
        ("seed", str(config.seed)),
        ("curriculum", f"K {curriculum.start_stiffness} → {curriculum.target_stiffness}, driver {curriculum.driver}"),
        ("progress at the end", f"{float(policy.curriculum.get('progress', 0.0)):.2f}"),
        ("policy rate", f"{policy.metadata.policy_rate:g} Hz"),
        ("settings", ", ".join(f"{name}={value}" for name, value in config.settings.items()) or "the task's own"),
        ("commit of the library", record.commit or "unknown"),
    ]
