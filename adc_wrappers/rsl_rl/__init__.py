"""RSL-RL: any vector env as its ``VecEnv``, and a runner that closes the curriculum's iteration after every update."""

from adc_wrappers.core.errors import MissingExtraError

from .quick_import import import_rsl_rl

try:
    import_rsl_rl()
except ImportError as error:
    raise MissingExtraError("rsl-rl-lib", "rsl-rl", "adc_wrappers.rsl_rl") from error

from .config import paper_runner_config, runner_config
from .runner import CurriculumRunner, sum_over_ranks
from .vec_env import RslRlVecEnv

__all__ = ["CurriculumRunner", "RslRlVecEnv", "paper_runner_config", "runner_config", "sum_over_ranks"]
