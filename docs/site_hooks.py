"""The site's view of the repository: pages, sources and pictures that the docs link to but that live outside ``docs``.

Links in ``docs`` are those of the repository, so that they work wherever it is browsed. For the site, whatever they
point to is brought along: Markdown and the notebook as pages, sources and folders as listings, all else as files. A
link that points to nothing stops the build.
"""

from __future__ import annotations

import base64
import json
import re
from pathlib import Path, PurePosixPath
from posixpath import normpath, relpath
from typing import Any

from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files

ROOT = Path(__file__).parents[1]
CODE = r"^```.*?^```|`(?:[^`\n]|\n(?!\n))+`"
LINK = re.compile(rf"{CODE}|(!?\[(?:[^\[\]]|\[[^\]]*\])*\]\()([^)\s]+)(\))", re.MULTILINE | re.DOTALL)
"""A link whose text may be code, or code, in which nothing is a link: whichever begins first."""
LISTED = {".py": "python", ".toml": "toml", ".json": "json", ".cff": "yaml"}
EXTRA_PAGES = ("CONTRIBUTING.md", "CHANGELOG.md", "examples/tour.ipynb", "benchmarks")
SHOWN_LINES = 400
INDEXED = re.compile(
    rf"{CODE}|(?<![\w/.#])([^\W\d_]\u0304?)_(\\?\*|[A-Za-z]+|\d)(?![A-Za-z_])", re.MULTILINE | re.DOTALL
)
"""K_*, K_0, ω_n, L_max in a text; two stars in one paragraph would be an emphasis for the site's Markdown."""


def site_path(path: str) -> str:
    """Where a path of the repository is in the site's sources.

    A README or index from elsewhere gets another name: the theme would take it for the front page of its section of
    the menu, and leave it out of the list.
    """
    if path.startswith("docs/"):
        return path.removeprefix("docs/")
    if path == "README.md":
        return path
    if (ROOT / path).is_dir():
        return f"source/{path}/files.md"
    if path.endswith("/README.md"):
        return path.removesuffix("README.md") + "overview.md"
    suffix = PurePosixPath(path).suffix
    if suffix == ".ipynb":
        return str(PurePosixPath(path).with_suffix(".md"))
    return f"source/{path}.md" if suffix in LISTED else path


def targets(text: str, page: str) -> list[str]:
    """Paths in the repository that a page links to."""
    found = []
    for _, link, _ in LINK.findall(text):
        target = link.split("#")[0]
        if target and ":" not in target:
            found.append(normpath(str(PurePosixPath(page).parent / target)))
    return found


def relink(text: str, page: str) -> str:
    """The text of a page of the repository with links as they are in the site."""
    here = PurePosixPath(site_path(page)).parent

    def replace(match: re.Match[str]) -> str:
        before, link, after = match.groups(default="")
        target, hash_sign, anchor = link.partition("#")
        if not target or ":" in target:
            return match.group(0)
        path = normpath(str(PurePosixPath(page).parent / target))
        if not (ROOT / path).exists():
            raise PluginError(f"{page} links to {link}, and there is no {path}.")
        return f"{before}{relpath(site_path(path), str(here))}{hash_sign}{anchor}{after}"

    return INDEXED.sub(_index, LINK.sub(replace, text))


def _index(match: re.Match[str]) -> str:
    letter, index = match.groups()
    return f"{letter}<sub>{index.lstrip(chr(92)).replace('*', '∗')}</sub>" if letter else match.group(0)


def listing(path: str) -> str:
    """A page that shows a source file."""
    lines = (ROOT / path).read_text().splitlines()
    more = f"\nThe file goes on: {len(lines)} lines in all.\n" if len(lines) > SHOWN_LINES else ""
    code = "\n".join(lines[:SHOWN_LINES])
    return f"# {PurePosixPath(path).name}\n\n`{path}`\n\n```{LISTED[PurePosixPath(path).suffix]}\n{code}\n```\n{more}"


def folder_page(path: str) -> str:
    """A page that lists what a folder holds."""
    names = sorted(child.name for child in (ROOT / path).iterdir() if not child.name.startswith((".", "_")))
    shown = [
        name
        for name in names
        if (ROOT / path / name).is_file() and PurePosixPath(name).suffix in {".md", *LISTED, ".ipynb"}
    ]
    here = PurePosixPath(site_path(path)).parent
    rows = [
        f"- [{name}]({relpath(site_path(f'{path}/{name}'), str(here))}){what_it_is(f'{path}/{name}')}" for name in shown
    ]
    return f"# {path.rpartition('/')[2].capitalize()}\n\n" + "\n".join(rows) + "\n"


def what_it_is(path: str) -> str:
    """A file's own first words: the title of a page, the first sentence of a module."""
    text, suffix = (ROOT / path).read_text(), PurePosixPath(path).suffix
    first = {".md": r"^# (.+)$", ".toml": r'^title = "(.+)"', ".py": r'\A(?:#.*\n)*"""(.+?)[.:]?(?:\n|"""|$)'}.get(
        suffix
    )
    found = re.search(first, text, re.MULTILINE) if first else None
    return f": {found[1]}" if found else ""


def notebook_page(path: str) -> str:
    """A notebook as Markdown: texts, code, and what came out of it."""
    parts = []
    for cell in json.loads((ROOT / path).read_text())["cells"]:
        source = "".join(cell["source"])
        if cell["cell_type"] == "markdown":
            parts.append(relink(source, path))
            continue
        parts.append(f"```python\n{source}\n```")
        parts += [shown for output in cell["outputs"] if (shown := _output(output))]
    name = PurePosixPath(path).name
    return "\n\n".join(parts) + f"\n\nThe notebook: `{path}` ([download]({name})).\n"


def _output(output: dict[str, Any]) -> str:
    if output["output_type"] == "stream":
        return f"```text\n{''.join(output['text']).rstrip()}\n```"
    data = output.get("data", {})
    for kind in ("image/png", "image/gif"):
        if kind in data:
            encoded = base64.b64encode(base64.b64decode("".join(data[kind]))).decode()
            return f'<img alt="output" src="data:{kind};base64,{encoded}">'
    return f"```text\n{''.join(data['text/plain'])}\n```" if "text/plain" in data else ""


def on_files(files: Files, config: Any) -> Files:
    """Add what pages link to outside of ``docs``, and what those link to."""
    pages = {f"docs/{file.src_uri}" for file in files.documentation_pages()}
    waiting = [target for page in sorted(pages) for target in targets((ROOT / page).read_text(), page)]
    waiting += EXTRA_PAGES
    seen = set(pages) | {"README.md"}
    while waiting:
        path = waiting.pop()
        if path in seen or path.startswith("docs/") or not (ROOT / path).exists():
            continue
        seen.add(path)
        waiting += _add(files, config, path)
    return files


def _add(files: Files, config: Any, path: str) -> list[str]:
    """Add one path to the site; return what it links to in turn."""
    suffix = PurePosixPath(path).suffix
    more: list[str] = []
    if (ROOT / path).is_dir():
        text = folder_page(path)
        more = [f"{path}/{name}" for name in re.findall(r"^- \[([^\]]+)\]", text, re.MULTILINE)]
    elif suffix == ".md":
        source = (ROOT / path).read_text()
        text, more = relink(source, path), targets(source, path)
    elif suffix == ".ipynb":
        files.append(File.generated(config, path, abs_src_path=str(ROOT / path)))
        text = notebook_page(path)
    elif suffix in LISTED:
        text = listing(path)
    else:
        files.append(File.generated(config, path, abs_src_path=str(ROOT / path)))
        return more
    files.append(File.generated(config, site_path(path), content=text))
    return more


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Turn the links of a page of ``docs`` into the site's."""
    if page.file.generated_by is not None:
        return markdown
    return relink(markdown, f"docs/{page.file.src_uri}")
