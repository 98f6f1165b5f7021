"""``adc push`` and ``adc pull``."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import tyro
from rich.console import Console

from adc_wrappers.core.reading import read_object
from adc_wrappers.runs import RunFolderError

from .evaluate import is_policy_file, print_evaluation, results_folder
from .progress import EvaluationProgress

if TYPE_CHECKING:
    from adc_wrappers.policy import Policy

__all__ = ["Pull", "Push"]

_FILM_SEED = 20_000


@dataclass(frozen=True, kw_only=True)
class Push:
    """Share a policy on a model hub, with a card that says task, gains, training, evaluation, and a film.

    Log in before with `hf auth login`, or set HF_TOKEN. HF_ENDPOINT names another hub than huggingface.co.
    """

    policy: Annotated[tyro.conf.Positional[Path], tyro.conf.arg(metavar="POLICY")]
    """A policy file that `adc export` wrote, or a run folder with its policy.onnx."""

    repo: Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="OWNER/NAME")]
    """The repository; it is made if it is not there."""

    public: bool = False
    """Let everybody see a repository that is made; by default it is private."""

    episodes: int = 100
    """Episodes of the evaluation at the target gains, where there is none beside the policy."""

    seed: int = 10_000
    """Seed of its start states."""

    film: bool = True
    """Film one episode."""

    seconds: float = 10.0
    """Film at most so much of it."""

    dry_run: Annotated[Path | None, tyro.conf.arg(metavar="FOLDER")] = None
    """Write what would be pushed into this folder, and push nothing."""

    def run(self) -> int:
        """Push."""
        from adc_wrappers.hub import POLICY_NAME, model_card, push
        from adc_wrappers.policy import load

        console = Console(highlight=False, soft_wrap=True)
        path = self._file()
        policy = load(path)
        evaluation = self._evaluation(console, policy)
        files = {POLICY_NAME: path.read_bytes()}
        if self.film:
            files["film.gif"] = _film(policy, self.seconds)
        card = model_card(policy, evaluation, self.repo, film="film.gif" if self.film else None)
        files["README.md"] = card.encode()
        if self.dry_run is not None:
            for name, content in files.items():
                self.dry_run.mkdir(parents=True, exist_ok=True)
                (self.dry_run / name).write_bytes(content)
            console.print(f"nothing was pushed; see {self.dry_run}")
            return 0
        address = push(files, self.repo, private=not self.public, message=f"Policy for {policy.config.task}")
        console.print(f"pushed {', '.join(sorted(files))}\n{address}", markup=False)
        return 0

    def _file(self) -> Path:
        if is_policy_file(self.policy):
            return self.policy
        inside = self.policy / "policy.onnx"
        if not inside.is_file():
            raise RunFolderError(
                f"{self.policy} is neither a policy file (.onnx) nor a run folder with a policy.onnx. Write one with: "
                f"adc export {self.policy}"
            )
        return inside

    def _evaluation(self, console: Console, policy: Policy) -> dict[str, Any]:
        """Return the evaluation beside the policy, if it is of this training, or make one."""
        from adc_wrappers.training.evaluating import EvaluationSetup, evaluate_and_keep

        setup, folder = EvaluationSetup.of(policy.config), results_folder(self.policy)
        kept = folder / f"{setup.name}.json"
        summary = read_object(kept, RunFolderError) if kept.exists() else {}
        if summary.get("at_target") and summary.get("trained", {}).get("steps") == policy.steps:
            return summary
        with EvaluationProgress(console, self.episodes) as progress:
            made = evaluate_and_keep(
                policy, setup, folder, episodes=self.episodes, seed=self.seed, on_step=progress.update
            )[1]
        print_evaluation(console, made)
        return made


def _film(policy: Policy, seconds: float) -> bytes:
    from adc_wrappers.envs.registry import make_env
    from adc_wrappers.runs.recording import record_episode
    from adc_wrappers.training.evaluating import pin_and_check

    config = policy.config
    env = make_env(config.task, backend=config.backend, render_mode="rgb_array", **config.settings)
    try:
        pin_and_check(policy, env)
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "film.gif"
            record_episode(
                policy, env, config.curriculum, path, seed=_FILM_SEED, max_seconds=seconds, width=320, fps=12.0
            )
            return path.read_bytes()
    finally:
        env.close()


@dataclass(frozen=True, kw_only=True)
class Pull:
    """Bring a shared policy here; it is kept only if it passes every check of a policy file."""

    repo: Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="OWNER/NAME")]
    """The repository on the hub."""

    out: Path | None = None
    """Where it goes; by default NAME.onnx here."""

    revision: str | None = None
    """Branch, tag or commit; by default the newest."""

    overwrite: bool = False
    """Replace a file that is there."""

    def run(self) -> int:
        """Pull."""
        from adc_wrappers.hub import pull

        out = self.out if self.out is not None else Path(f"{self.repo.split('/')[-1]}.onnx")
        if not is_policy_file(out):
            raise ValueError(f"--out: expected a file name that ends in .onnx, got {out.name!r}.")
        found = pull(self.repo, out, revision=self.revision, overwrite=self.overwrite)
        console = Console(highlight=False, soft_wrap=True)
        console.print(f"policy {found.path}\ncommit {found.commit}\nwatch  adc view {found.path}", markup=False)
        return 0
