"""A curriculum in words: what it will do to K, in one sentence, for those who watch a run begin."""

from __future__ import annotations

from adc_wrappers.core.config import CurriculumConfig

__all__ = ["curriculum_in_words"]


def curriculum_in_words(config: CurriculumConfig) -> str:
    """Return what moves K, and for how long it is held at the target.

    >>> curriculum_in_words(CurriculumConfig(driver="time", hold_share=0.4, total_iterations=50))
    'K falls evenly with time, whatever the policy can do; for the last 40 % of training it is held at the target'
    """
    parts = [_driver_in_words(config)]
    if config.monotone:
        parts.append("never back to stiffer joints")
    if config.hold_share:
        parts.append(f"for the last {100 * config.hold_share:.0f} % of training it is held at the target")
    elif config.driver in ("episode_length", "success", "task_progress", "adaptive"):
        parts.append("it is never held at the target: training may end before it arrives")
    return "; ".join(parts)


def _driver_in_words(config: CurriculumConfig) -> str:
    if not isinstance(config.driver, str):
        return "K follows a function of your own"
    words = {
        "episode_length": f"K follows the average episode length and arrives at {config.length_max:.0f} steps",
        "time": "K falls evenly with time, whatever the policy can do",
        "fixed": f"K stays where it is, at progress {config.fixed_progress:g}",
        "uniform": "K is drawn anew for every iteration",
        "success": f"K follows the success rate and arrives at {100 * config.success_max:.0f} %",
        "task_progress": f"K follows the task's own progress and arrives at {config.task_progress_max:g}",
        "adaptive": f"K goes a step on or back by {config.adaptive_measure.replace('_', ' ')}",
    }
    return words[config.driver]
