"""Viability, or why a task does not start to learn: kernels of the cart-pole, a meter of narrowness for any task."""

from .advice import Advice, advise
from .coverage import Coverage, Inclusion, common_states, compare_kernels, kernel_coverage, kernel_family, linear_bound
from .grid import Grid, Transitions, sweep, tabulate
from .kernel import CartPoleKernel, KernelSettings, cartpole_kernel
from .narrowness import Narrowness, SearchSettings, estimate_narrowness, save_states
from .plant import CartPlant, regulator
from .proposition import PairCheck, check_proposition, inverted_command
from .success import RegulatorSettings, StartGrid, SuccessCurve, success_curve

__all__ = [
    "Advice",
    "CartPlant",
    "CartPoleKernel",
    "Coverage",
    "Grid",
    "Inclusion",
    "KernelSettings",
    "Narrowness",
    "PairCheck",
    "RegulatorSettings",
    "SearchSettings",
    "StartGrid",
    "SuccessCurve",
    "Transitions",
    "advise",
    "cartpole_kernel",
    "check_proposition",
    "common_states",
    "compare_kernels",
    "estimate_narrowness",
    "inverted_command",
    "kernel_coverage",
    "kernel_family",
    "linear_bound",
    "regulator",
    "save_states",
    "success_curve",
    "sweep",
    "tabulate",
]
