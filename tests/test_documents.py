"""README and docs: their Python runs, their commands exist, their lines are short, the notebook executes."""

from __future__ import annotations

import ast
import configparser
import contextlib
import functools
import importlib.util
import io
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")), ROOT / "examples/policies/README.md"]
RUN = {  # pages whose Python blocks are one program, and what makes it short
    "README.md": {},
    "docs/start.md": {},
    "docs/simulators.md": {},
    "docs/howto/your_own_robot.md": {},
    "docs/howto/own_loop.md": {},
    "docs/howto/rsl_rl.md": {"num_envs=256": "num_envs=4", "runner.learn(10_000)": "runner.learn(1)"},
    "docs/howto/sb3.md": {
        "total_steps = 200_000": "total_steps = 4096",
        "eval_freq=2048": "eval_freq=128",
        "save_freq=1024": "save_freq=128",
        "n_eval_episodes=20": "n_eval_episodes=2",
    },
}


def name_of(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


def blocks(page: Path, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", page.read_text(), re.DOTALL | re.MULTILINE)


@pytest.mark.slow
@pytest.mark.parametrize("name", RUN)
def test_the_python_of_a_page_runs(name, tmp_path):
    code = "\n".join(blocks(ROOT / name, "python"))
    for long, short in RUN[name].items():
        assert long in code
        code = code.replace(long, short)
    script = tmp_path / "page.py"
    script.write_text(code)
    answer = subprocess.run(
        [sys.executable, str(script)], capture_output=True, text=True, cwd=tmp_path, timeout=300, check=False
    )
    assert answer.returncode == 0, answer.stderr
    if name == "docs/howto/sb3.md":
        steps, stiffness, later = re.search(r"resumed at (\d+) steps, K = ([\d.]+) after (\d+)", answer.stdout).groups()
        assert int(steps) == 2048 and int(later) == 4096 and 6.25 <= float(stiffness) < 36.0
        assert {"best_model.zip", "best_vecnormalize.pkl"} <= {path.name for path in (tmp_path / "runs").rglob("*")}


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_python_is_python_and_imports_what_is_there(page):
    for block in blocks(page, "python"):
        for node in ast.walk(ast.parse(block)):
            own = isinstance(node, ast.ImportFrom) and (node.module or "").startswith("adc_wrappers")
            if own and not node.module.startswith("adc_wrappers.rllib"):  # needs an environment of its own
                module = importlib.import_module(node.module)
                missing = [alias.name for alias in node.names if not hasattr(module, alias.name)]
                assert not missing, f"{name_of(page)} imports {missing} from {node.module}"


# Commands


def shell_blocks(page: Path) -> list[tuple[str, list[str]]]:
    """Mark and commands of every shell block: the mark is the comment above it."""
    found = re.findall(r"^(?:<!-- (.*?) -->\n)?```sh\n(.*?)^```", page.read_text(), re.DOTALL | re.MULTILINE)
    return [(mark, [line for line in body.replace("\\\n", " ").splitlines() if line.strip()]) for mark, body in found]


SHELL = [(page, mark, lines) for page in PAGES for mark, lines in shell_blocks(page)]


def words_of(line: str) -> list[str]:
    return shlex.split(line, comments=True)


def commands(line: str) -> list[list[str]]:
    """The commands of a line, without what is set before them."""
    found = []
    for part in re.split(r"\s&&\s|\s\|\s", line):
        words = words_of(part)
        while words and re.fullmatch(r"\w+=.*", words[0]):
            words = words[1:]
        if words:
            found.append(words)
    return found


def test_there_are_commands_to_check():
    assert len(SHELL) >= 20


@pytest.mark.parametrize(
    ("page", "mark", "lines"), SHELL, ids=[f"{name_of(page)}-{index}" for index, (page, *_) in enumerate(SHELL)]
)
def test_every_command_exists_and_says_whether_it_is_run(page, mark, lines):
    assert mark == "run" or re.fullmatch(r"not run: .+", mark), (
        f"{name_of(page)}: write `<!-- run -->` (a test runs the block) or `<!-- not run: why -->` above\n"
        + "\n".join(lines)
    )
    for line in lines:
        for words in commands(line):
            check_command(words)


def check_command(words: list[str]) -> None:
    program, *rest = words
    if program == "adc":
        parse(rest)
    elif program == "make":
        targets = re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
        assert {word for word in rest if "=" not in word} <= set(targets), words
    elif program in ("python", "python3", "torchrun"):
        script = next((word for word in rest if word.endswith(".py")), None)
        assert script is None or (ROOT / script).is_file(), words
    elif program == "pip":
        for extras in re.findall(r"(?:adc-wrappers|\.)\[([\w,-]+)\]", " ".join(rest)):
            assert set(extras.split(",")) <= known_extras(), words
    else:
        assert program in (".", "git", "docker", "tensorboard", "ray", "cd", "export", "hf"), (
            f"{words}: teach this test to check it"
        )


@functools.cache
def known_extras() -> set[str]:
    config = configparser.ConfigParser()
    config.read(ROOT / "setup.cfg")
    return set(config["options.extras_require"])


def parse(words: list[str], mention: bool = False) -> object:
    """What the command line makes of the words, without running it; a mention may leave out what is required."""
    from adc_wrappers.cli.main import COMMANDS, read_command

    assert words[0] in COMMANDS, words
    said = io.StringIO()
    try:
        with contextlib.redirect_stderr(said), contextlib.redirect_stdout(said):
            return read_command(words[0], words[1:])
    except SystemExit as stop:
        assert not stop.code or (mention and "Required options" in said.getvalue()), (
            f"adc {shlex.join(words)}\n{said.getvalue()}"
        )
        return None


def test_an_option_that_does_not_exist_is_found():
    parse(["envs"])
    for wrong in (["envs", "--nothing"], ["nothing"], ["train", "cartpole", "--seeed", "1"]):
        with pytest.raises(AssertionError):
            parse(wrong)


INLINE = sorted(
    {
        (name_of(page), " ".join(text.split()))
        for page in PAGES
        for part in re.split(r"^```.*?^```", page.read_text(), flags=re.DOTALL | re.MULTILINE)
        for text in re.findall(r"`(adc [^`]+)`", part)
    }
)


@pytest.mark.parametrize("name", sorted({name for name, _ in INLINE}))
def test_commands_within_sentences_exist(name):
    """Those with an option are parsed whole; those without are names."""
    from adc_wrappers.cli.main import COMMANDS

    for _, text in (pair for pair in INLINE if pair[0] == name):
        words = words_of(text)[1:]
        assert words[0] in COMMANDS, text
        if any(word.startswith("--") for word in words) and "…" not in text:
            parse(words, mention=True)


@pytest.mark.slow
def test_blocks_that_are_said_to_run_run(tmp_path):
    ran = 0
    for page, mark, lines in SHELL:
        for line in lines if mark == "run" else ():
            (words,) = commands(line)
            assert words[0] == "adc", line
            answer = subprocess.run(
                [sys.executable, "-m", "adc_wrappers.cli", *words[1:]],
                capture_output=True, text=True, cwd=tmp_path, timeout=300, check=False,
                env=os.environ | {"PYTHONPATH": str(ROOT)},
            )  # fmt: skip
            assert answer.returncode == 0, f"{name_of(page)}: {line}\n{answer.stderr}"
            ran += 1
    assert ran >= 2


# Texts


@pytest.mark.parametrize("page", [*PAGES, ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md"], ids=name_of)
def test_lines_of_text_have_at_most_100_columns(page):
    text = re.sub(r"^```.*?^```", "", page.read_text(), flags=re.DOTALL | re.MULTILINE)
    long = [line for line in text.splitlines() if len(line) > 100 and not line.startswith(("|", "![", "<!--", "`"))]
    assert not [line for line in long if not re.search(r"\S{60}", line)]


def test_the_readme_is_short():
    text = re.sub(r"^```.*?^```|<!--.*?-->|\|.*", "", (ROOT / "README.md").read_text(), flags=re.DOTALL | re.MULTILINE)
    assert len(re.sub(r"\]\([^)]*\)", "]", text).split()) <= 650


NOTEBOOK = ROOT / "examples" / "tour.ipynb"


def test_the_notebook_carries_small_outputs():
    import nbformat

    notebook = nbformat.read(NOTEBOOK, 4)
    nbformat.validate(notebook)
    assert NOTEBOOK.stat().st_size < 200_000
    pictures = [kind for cell in notebook.cells for out in cell.get("outputs", []) for kind in out.get("data", {})]
    assert {"image/png", "image/gif"} <= set(pictures)


@pytest.mark.slow
def test_the_notebook_executes(tmp_path):
    """With fewer training steps; every other cell as it is."""
    import nbformat
    from nbclient import NotebookClient

    notebook = nbformat.read(NOTEBOOK, 4)
    training = next(cell for cell in notebook.cells if "61_440" in cell.source)
    training.source = training.source.replace("61_440", "8_192")
    NotebookClient(notebook, timeout=300, resources={"metadata": {"path": str(tmp_path)}}).execute()
    said = "".join(out.get("text", "") for cell in notebook.cells for out in cell.get("outputs", []))
    assert float(re.search(r"4 iterations, K = ([\d.]+)", said).group(1)) < 36.0
    assert "live stiffness: 6.25 N/m" in said
    assert (tmp_path / "tour.gif").stat().st_size > 1000
