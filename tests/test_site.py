"""The docs as a site: built strictly, complete, and without a request to other hosts."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


def build(folder: Path, config: Path = ROOT / "mkdocs.yml") -> subprocess.CompletedProcess[str]:
    """Build; not with --quiet, which keeps warnings from stopping a strict build."""
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "-f", str(config), "-d", str(folder)]
    environment = os.environ | {"NO_MKDOCS_2_WARNING": "1"}
    return subprocess.run(command, capture_output=True, text=True, cwd=ROOT, env=environment, check=False)


@pytest.mark.slow
def test_the_site(tmp_path):
    """One build for all that is asked of it: it takes half a minute."""
    answer = build(tmp_path)
    assert answer.returncode == 0, answer.stdout + answer.stderr
    pages = {path.relative_to(tmp_path).as_posix(): path.read_text() for path in tmp_path.rglob("*.html")}

    wanted = {"index", "start", "howto/sb3", "examples/tour", "results/handstand-cpu/report", "decisions/index"}
    assert {f"{name}.html" for name in wanted} <= set(pages)
    assert "source/examples/sb3_cartpole.py.html" in pages  # linked from the docs, so brought along
    assert (tmp_path / "results/handstand-cpu/curves.png").is_file()

    results = ("Shipped policy", "Benchmarks", "Study: cart-pole")  # in the menu beside a page of their section
    assert [entry for entry in results if entry not in pages["does_it_help.html"]] == []

    links = {link for text in pages.values() for link in re.findall(r'href="([^"#:]+\.md)[#"]', text)}
    assert not links  # one that was not understood is left as it is

    reference = "".join(text for name, text in pages.items() if name.startswith("api/"))
    for name in (
        "adc_wrappers.ActuatorCurriculumWrapper",
        "adc_wrappers.envs.Task",  # behind a link
        "adc_wrappers.backends.base.RobotBackend",
        "adc_wrappers.sb3.TargetGainsEvalCallback",
    ):
        assert f'id="{name}"' in reference
    assert not re.search(r":(class|func|meth|mod):", reference)

    fetched = r'<(?:script|link|img|iframe)[^>]+(?:src|href)="(?:https?:)?//[^"]*"'
    assert {name: found for name, text in pages.items() if (found := re.findall(fetched, text))} == {}
    sheets = "".join(path.read_text() for path in tmp_path.rglob("*.css"))
    assert not re.search(r"(@import|url\()\s*[\"']?(https?:)?//", sheets)


def test_every_page_of_docs_is_in_the_menu():
    menu = (ROOT / "mkdocs.yml").read_text().partition("\nnav:")[2]
    pages = [path.relative_to(ROOT / "docs").as_posix() for path in (ROOT / "docs").rglob("*.md")]
    assert [name for name in pages if not re.search(rf"[ ]{re.escape(name)}$", menu, re.MULTILINE)] == []


def test_every_part_of_the_library_is_in_the_reference():
    """But the commands, whose reference is ``--help``, and the core, which is re-exported."""
    asked = set(re.findall(r"^::: (\S+)", "".join(path.read_text() for path in (ROOT / "docs/api").glob("*.md")), re.M))
    folders = [*(ROOT / "adc_wrappers").glob("*/__init__.py"), *(ROOT / "backends").glob("*/__init__.py")]
    names = {".".join(path.parent.relative_to(ROOT).parts) for path in folders}
    names = {name if name.startswith("adc_wrappers") else f"adc_wrappers.{name}" for name in names}
    assert names - asked == {"adc_wrappers.cli", "adc_wrappers.core", "adc_wrappers.backends"}


@pytest.fixture
def hooks(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "docs"))
    import site_hooks

    return site_hooks


def test_links_out_of_docs_lead_to_the_site_s_own_pages(hooks):
    text = "[a](../examples/resume.py), [b](../results/handstand-cpu/report.md#x), `[c](../d.py)`, "
    text += "K_* and K_0, x̄_d of ω_n, L_max, `K_0`, a_file_name, `adc\ngains`, K_*, "
    text += "[`d`](../setup.cfg), [e](../examples/policies/README.md)"
    assert hooks.relink(text, "docs/start.md") == (
        "[a](source/examples/resume.py.md), [b](results/handstand-cpu/report.md#x), `[c](../d.py)`, "
        "K<sub>∗</sub> and K<sub>0</sub>, x̄<sub>d</sub> of ω<sub>n</sub>, L<sub>max</sub>, `K_0`, a_file_name, "
        "`adc\ngains`, K<sub>∗</sub>, [`d`](setup.cfg), [e](examples/policies/overview.md)"
    )


def test_a_link_to_nothing_stops_the_build(hooks):
    from mkdocs.exceptions import PluginError

    with pytest.raises(PluginError, match=r"docs/start\.md links to \.\./nowhere\.py"):
        hooks.relink("[a](../nowhere.py)", "docs/start.md")


def test_a_folder_s_page_says_what_its_files_are(hooks):
    lines = hooks.folder_page("benchmarks").splitlines()
    assert lines[0] == "# Benchmarks"
    assert [line for line in lines[2:] if not re.fullmatch(r"- \[[\w.]+\]\([^)]+\)(: \S.+)?", line)] == []
    assert sum("): " in line for line in lines) >= len(lines) - 5
    assert any(line.startswith("- [overhead.md](") and "): " in line for line in lines)
