"""The report of a study: numbers that are right, files that are whole, a page that works in a real browser."""

from __future__ import annotations

import csv
import json
import shutil
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest
from study_helpers import write_run, write_study

from adc_wrappers.cli import main
from adc_wrappers.runs import RunFolderError
from adc_wrappers.study import CONDITIONS, find_condition
from adc_wrappers.study.analysis import analyse, curves_of, load_scores
from adc_wrappers.study.pictures import cut_range
from adc_wrappers.study.report import write_report
from adc_wrappers.study.results import METRICS, read_results
from adc_wrappers.study.verdict import verdict_of

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
FLAGS = ["--no-sandbox", "--headless", "--disable-gpu", "--disable-background-networking"]
LENGTH = METRICS[1]


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    """A folder of made-up runs, moved together by hand: without a study.json."""
    out = write_study(tmp_path_factory.mktemp("study"))
    (out / "notes.md").write_text("What <we> think of K_*.\n\nA second paragraph.\n")
    write_report(out, films=False)
    return out


def rows(path):
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


# --- numbers ---------------------------------------------------------------------------------------------------------


def test_the_tables_have_the_numbers_of_the_runs(study):
    table = {row["condition"]: row for row in rows(study / "report" / "conditions.csv")}
    assert list(table) == list(CONDITIONS)
    for name in CONDITIONS:
        values = [json.loads(path.read_text())["length_mean"] for path in (study / name).glob("seed*/eval.json")]
        assert float(table[name]["length_mean"]) == pytest.approx(np.mean(values))
        assert float(table[name]["length_std"]) == pytest.approx(np.std(values, ddof=1))
        assert float(table[name]["length_low"]) <= float(table[name]["length_iqm"]) <= float(table[name]["length_high"])
    assert table["adc"]["length_adc_better_value"] == ""
    assert float(table["train_at_target"]["length_adc_better_value"]) == 1.0
    assert table["train_at_target"]["failed"] == "1"


def test_failed_and_unfinished_runs_are_shown_and_not_counted(tmp_path):
    for seed in range(3):
        write_run(tmp_path, "adc", seed, success=0.5)
    write_run(tmp_path, "adc", 3, error="KeyError: 'x'")
    (write_run(tmp_path, "adc", 4) / "eval.json").unlink()
    (tmp_path / "adc/seed4/job.json").unlink()
    (row,) = analyse(read_results(tmp_path))
    assert (row.runs, row.failed, row.unfinished) == (3, 1, 1)
    assert row.mean["success"] == (0.5, 0.0)
    write_report(tmp_path, films=False)
    text = (tmp_path / "report" / "report.md").read_text()
    assert "3 (1 failed, 1 unfinished)" in text and "KeyError: 'x'" in text
    assert [entry["state"] for entry in rows(tmp_path / "report" / "runs.csv")] == ["finished"] * 3 + [
        "failed",
        "unfinished",
    ]


def test_a_run_that_was_not_trained_to_its_end_is_unfinished(tmp_path):
    write_run(tmp_path, "adc", 0)
    write_run(tmp_path, "adc", 1, trained={"steps": 999})
    assert [run.state for run in read_results(tmp_path).runs] == ["finished", "unfinished"]


def test_runs_of_the_older_comparison_are_read_as_they_are(tmp_path):
    """done.json instead of job.json, no study.json, a condition that nobody knows."""
    path = write_run(tmp_path, "my_condition", 0, task="spot-handstand")
    (path / "job.json").unlink()
    (path / "done.json").write_text('{"seconds": 12.5}')
    results = read_results(tmp_path)
    assert results.runs[0].seconds == 12.5 and results.runs[0].state == "finished"
    assert results.conditions[0].title == "my_condition"
    write_report(tmp_path, films=False)
    assert "spot-handstand" in (tmp_path / "report" / "report.md").read_text()


def test_the_export_is_a_dict_of_runs_by_tasks(study):
    scores = load_scores(study / "report" / "scores-length.npz")
    assert set(scores) == set(CONDITIONS)
    assert all(values.shape == (10, 1) and values.dtype == np.float64 for values in scores.values())
    np.testing.assert_array_equal(scores["adc"], read_results(study).scores(LENGTH)["adc"])


def test_a_curve_is_the_middle_of_its_seeds_and_bridges_gaps(study):
    curve = curves_of(read_results(study).of("adc"), "episode_length_mean")
    assert len(curve.steps) == 40 and curve.steps[-1] == 1000
    np.testing.assert_allclose(curve.value[1:], 10 * np.arange(2, 41), atol=1.5)
    assert np.isfinite(curve.value).all()
    assert (curve.low <= curve.value + 1e-9).all() and (curve.value <= curve.high + 1e-9).all()
    assert curves_of(read_results(study).of("adc"), "holding") is None


def test_the_papers_two_tables_are_beside_ours_on_the_papers_task(tmp_path):
    write_report(write_study(tmp_path, seeds=1, task="spot-handstand"), films=False)
    text = (tmp_path / "report" / "report.md").read_text()
    first, second = text.index("Table 1 of the paper"), text.index("Table 2 of the paper")
    for name in CONDITIONS:
        row = find_condition(name).paper
        if row is None:
            continue
        cell = f"{row.length[0]:.0f} ± {row.length[1]:.0f}"
        assert (cell in text[first:second]) == (1 in row.tables)
        assert (cell in text[second:]) == (2 in row.tables)


def test_another_task_has_no_number_of_the_paper(study):
    for name in ("report.md", "report.html"):
        text = (study / "report" / name).read_text()
        assert "paper: length" not in text and "975 ± 12" not in text and "385 ± 47" not in text
    assert (study / "report" / "report.md").read_text().count("Ours (ADC)") >= 3


# --- the verdict -----------------------------------------------------------------------------------------------------


def judged(tmp_path, seeds, **successes):
    for name, success in successes.items():
        for seed in range(seeds):
            write_run(tmp_path, name, seed, success=success + 0.001 * seed)
    return verdict_of(analyse(read_results(tmp_path)))


@pytest.mark.parametrize(
    ("ours", "base", "kind", "words"),
    [
        (0.9, 0.4, "better", "By success, ADC is better than training at K_*: 90.2 % against 40.2 %"),
        (0.3, 0.8, "worse", "By success, ADC is worse than training at K_*"),
        (0.5, 0.5, "open", "these runs do not tell ADC from training at K_*"),
        (0.0, 0.02, "worse", "By episode length, ADC is worse"),
    ],
)
def test_a_study_has_a_verdict(tmp_path, ours, base, kind, words):
    found = judged(tmp_path, 6, adc=ours, train_at_target=base)
    assert found.kind == kind and words in found.text and found.warning == ""
    write_report(tmp_path, films=False)
    assert words in (tmp_path / "report" / "report.md").read_text().replace("\\*", "*")
    assert f'<div class="verdict {kind}">' in (tmp_path / "report" / "report.html").read_text()


def test_two_seeds_are_a_first_look_and_say_so(tmp_path, capsys):
    found = judged(tmp_path, 2, adc=0.9, train_at_target=0.4)
    assert found.kind == "open" and "with too few runs for a verdict" in found.text
    assert "2 of 6 such comparisons" in found.warning
    assert main(["study", "report", str(tmp_path), "--no-films"]) == 0
    out = " ".join(capsys.readouterr().out.split())
    assert "A first look" in out and "2 of 6 such comparisons" in out
    for name in ("report.md", "report.html"):
        text = (tmp_path / "report" / name).read_text()
        assert "1.00 to 1.00" not in text and "4 pairs, no interval" in text


def test_a_study_without_the_baseline_says_what_is_missing(tmp_path):
    found = judged(tmp_path, 5, adc=0.9, train_at_start=0.1)
    assert found.kind == "open" and "there is no finished run of train_at_target" in found.text
    assert "Highest of all: Ours (ADC) (90.2 %)" in found.text


def test_every_pair_is_said_instead_of_an_interval_that_cannot_be(study):
    assert "(all 100 pairs)" in (study / "report" / "report.md").read_text()


def test_a_report_repeats_to_the_byte(study, tmp_path):
    write_report(study, tmp_path, films=False)
    for name in ("report.html", "report.md", "conditions.csv", "curves.csv"):
        assert (tmp_path / name).read_bytes() == (study / "report" / name).read_bytes()


def test_one_condition_does_not_flatten_the_axis_of_all_others():
    flat = np.linspace(0.0, 10.0, 50)
    assert cut_range({"a": flat, "b": flat + 5.0}) is None
    assert cut_range({"a": flat}) is None
    cut = cut_range({"a": flat, "far": -90_000.0 * flat, "b": flat + 5.0, "farther": 1e7 * flat})
    assert set(cut.outside) == {"far", "farther"} and -3.0 < cut.low < 0.0 and 15.0 < cut.high < 17.0


def test_pictures_are_pictures(study):
    for name in ("curves.png", "estimates.png", "profiles.png"):
        assert (study / "report" / name).read_bytes().startswith(b"\x89PNG")


def test_without_a_finished_run_there_is_no_report(tmp_path, capsys):
    with pytest.raises(RunFolderError, match="no finished run"):
        read_results(tmp_path)
    assert main(["study", "report", str(tmp_path / "nothing")]) == 1
    assert "there is no folder" in capsys.readouterr().err


# --- the page --------------------------------------------------------------------------------------------------------


def test_the_page_stands_alone_and_escapes_what_it_quotes(study):
    page = (study / "report" / "report.html").read_text()
    assert len(page.encode()) < 2_000_000
    for word in ('src="http', 'href="http', "//cdn", "@import", "fetch(", "XMLHttpRequest"):
        assert word not in page
    assert "&lt;gains&gt;" in page and "<gains>" not in page
    assert "What &lt;we&gt; think of K<sub>*</sub>." in page
    assert "{{" not in page


HOSTILE = ("{{data}}", "{{script}} {{title}}", "<img src=x onerror=alert(1)>", "[red] `$x$` | <!--<script>", "a&b]]>")


class _Elements(HTMLParser):
    """The elements of a page, by name, and the text of its data."""

    def __init__(self, page):
        super().__init__()
        self.names, self.data, self._in_data = [], "", False
        self.feed(page)

    def handle_starttag(self, tag, attributes):
        self.names.append(tag)
        self._in_data = ("id", "study-data") in attributes

    def handle_endtag(self, tag):
        self._in_data = False

    def handle_data(self, text):
        self.data += text if self._in_data else ""


def test_names_that_look_like_html_or_like_marks_are_shown_as_they_are(tmp_path, capsys):
    plain, hostile = tmp_path / "plain", tmp_path / "hostile"
    for place, name in enumerate(HOSTILE):
        write_run(plain, f"condition{place}", 0)
        write_run(hostile, name, 0)
    pages = {}
    for out in (plain, hostile):
        write_report(out, films=False)
        pages[out] = _Elements((out / "report" / "report.html").read_text())
    assert sorted(pages[hostile].names) == sorted(pages[plain].names) and "img" not in pages[hostile].names
    shown = [condition["name"] for condition in json.loads(pages[hostile].data)["conditions"]]
    assert sorted(shown) == sorted(HOSTILE)
    page = (hostile / "report" / "report.html").read_text()
    assert page.count('"conditions":[{') == 1  # the data is where it belongs and nowhere else
    assert "<span>{{data}}</span>" in page
    text = (hostile / "report" / "report.md").read_text()
    assert "&lt;img src=x" in text and "<img" not in text.replace("`<img src=x onerror=alert(1)>`", "")
    assert main(["study", "report", str(hostile), "--no-films"]) == 0
    assert "[red]" in capsys.readouterr().out


@pytest.fixture(scope="module")
def browser():
    if CHROMIUM is None:
        pytest.skip("no Chromium found: the page is not looked at in a browser")
    playwright = pytest.importorskip("playwright.sync_api", reason="needs playwright to drive Chromium")
    with playwright.sync_playwright() as driver:
        found = driver.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield found
        found.close()


@pytest.fixture
def page(browser, study):
    """The page on a desktop; no console message and no request may come from it."""
    context = browser.new_context(viewport={"width": 1200, "height": 900})
    tab = context.new_page()
    tab.messages, tab.requests = [], []
    tab.on("console", lambda message: tab.messages.append(message.text))
    tab.on("pageerror", lambda error: tab.messages.append(str(error)))
    tab.on("request", lambda request: tab.requests.append(request.url))
    tab.goto(Path(study / "report" / "report.html").as_uri())
    yield tab
    assert tab.messages == []
    assert [url for url in tab.requests if not url.startswith(("file:", "data:"))] == []
    context.close()


def test_every_chart_is_drawn(page):
    for column in ("stiffness", "episode_length_mean", "success_ema", "return_mean"):
        assert page.locator(f"#curve-{column} polyline").count() == len(CONDITIONS)
    for metric in METRICS:
        assert page.locator(f"#iqm-{metric.name} circle").count() == len(CONDITIONS)
        assert page.locator(f"#profile-{metric.name} polyline").count() == len(CONDITIONS)
    assert page.locator("#modes rect").count() > len(CONDITIONS)
    points = page.locator("#curve-stiffness polyline").first.get_attribute("points")
    assert "NaN" not in points and len(points.split()) == 40


def test_the_legend_hides_and_shows_a_condition_everywhere(page):
    button = page.locator(".legend button[data-condition=adc]")
    shown = 'tr[data-condition="adc"]:visible'
    before = page.locator(shown).count()
    assert before > 0 and page.locator("#curve-stiffness [data-condition=adc]").count() == 1
    button.click()
    assert button.get_attribute("aria-pressed") == "false"
    assert page.locator("polyline[data-condition=adc], circle[data-condition=adc]").count() == 0
    assert page.locator(shown).count() == 0
    button.click()
    assert page.locator("#curve-stiffness [data-condition=adc]").count() == 1 and page.locator(shown).count() == before


def test_all_conditions_can_be_hidden(page):
    for button in page.locator(".legend button").all():
        button.click()
    assert page.locator("polyline").count() == 0


def test_tables_sort_by_number_both_ways(page):
    page.locator("summary").click()
    table = page.locator("table.sortable").last
    column = table.locator("thead th").nth(4)
    values = lambda: [float(v) for v in table.locator("tbody tr td:nth-child(5)[data-value]").evaluate_all(  # noqa: E731
        "cells => cells.map((cell) => cell.dataset.value)")]  # fmt: skip
    column.locator("button").click()
    assert column.get_attribute("aria-sort") == "descending"
    assert values() == sorted(values(), reverse=True) and len(set(values())) > 10
    column.locator("button").click()
    assert column.get_attribute("aria-sort") == "ascending"
    assert values() == sorted(values())


def test_plots_zoom_by_dragging_and_come_back(page):
    figure = page.locator("#curve-episode_length_mean")
    points = lambda: figure.locator("polyline").first.get_attribute("points")  # noqa: E731
    whole = points()
    figure.scroll_into_view_if_needed()
    box = figure.locator(".frame").bounding_box()
    page.mouse.move(box["x"] + 0.3 * box["width"], box["y"] + 0.3 * box["height"])
    page.mouse.down()
    page.mouse.move(box["x"] + 0.6 * box["width"], box["y"] + 0.7 * box["height"], steps=4)
    page.mouse.up()
    zoomed = points()
    assert zoomed != whole
    page.mouse.dblclick(box["x"] + 0.5 * box["width"], box["y"] + 0.5 * box["height"])
    assert points() == whole
    figure.get_by_role("button", name="zoom in").click()
    assert points() not in (whole, zoomed)
    figure.get_by_role("button", name="whole range").click()
    assert points() == whole


def test_the_cursor_reads_values(page):
    figure = page.locator("#curve-stiffness")
    figure.scroll_into_view_if_needed()
    figure.locator(".frame").hover()
    assert "Ours (ADC)" in figure.locator(".readout").inner_text()


@pytest.mark.parametrize("width", [1300, 1000, 390])
def test_no_label_and_no_table_is_cut_off(browser, study, width):
    context = browser.new_context(viewport={"width": width, "height": 900})
    tab = context.new_page()
    tab.goto(Path(study / "report" / "report.html").as_uri())
    assert tab.evaluate("document.documentElement.scrollWidth") <= width
    outside = """[...document.querySelectorAll('svg text')].filter((text) => {
        const [inner, outer] = [text.getBoundingClientRect(), text.ownerSVGElement.getBoundingClientRect()];
        return inner.right > outer.right + 0.5 || inner.left < outer.left - 0.5 || inner.bottom > outer.bottom + 0.5;
    }).map((text) => text.textContent)"""
    assert tab.evaluate(outside) == []
    tables = "[...document.querySelectorAll('.scroll')].filter((box) => box.scrollWidth > box.clientWidth + 1).length"
    assert tab.evaluate(tables) == 0
    context.close()


def test_an_axis_that_is_cut_says_so_and_shows_all_when_asked(browser, tmp_path):
    for name in ("adc", "train_at_target", "no_termination"):
        for seed in range(2):
            path = write_run(tmp_path, name, seed) / "metrics.csv"
            if name == "no_termination":
                head, *lines = path.read_text().splitlines()
                lines = [f"{line.rpartition(',')[0]},{-90_000 - i}" for i, line in enumerate(lines)]
                path.write_text("\n".join([head, *lines]) + "\n")
    _, report = write_report(tmp_path, films=False)
    tab = browser.new_page()
    tab.goto(report.as_uri())
    figure = tab.locator("#curve-return_mean")
    assert "No early termination far outside" in figure.locator(".readout").inner_text()
    height = "(line) => { const box = line.getBBox(); return box.height; }"
    ours = figure.locator("polyline[data-condition=adc]")
    assert ours.evaluate(height) > 100
    figure.get_by_role("button", name="whole range").click()
    assert ours.evaluate(height) < 5 and figure.locator(".readout").inner_text() == ""
    tab.close()


def test_the_page_fits_a_phone(browser, study):
    context = browser.new_context(viewport={"width": 360, "height": 740}, is_mobile=True, has_touch=True)
    tab = context.new_page()
    tab.goto(Path(study / "report" / "report.html").as_uri())
    assert tab.evaluate("document.documentElement.scrollWidth") <= 360
    for figure in tab.locator("figure").all():
        box = figure.bounding_box()
        assert box["x"] >= 0 and box["x"] + box["width"] <= 360
    small = tab.evaluate(
        "[...document.querySelectorAll('p, td, li')].filter(e => parseFloat(getComputedStyle(e).fontSize) < 12).length"
    )
    assert small == 0
    page_wide = "[...document.querySelectorAll('td, figcaption, .verdict, dd, .legend button')]"
    cut_off = f"{page_wide}.filter(e => e.offsetParent && (e.getBoundingClientRect().right > 360.5)).length"
    assert tab.evaluate(cut_off) == 0
    scrolled = "[...document.querySelectorAll('.scroll')].filter(e => e.scrollWidth > e.clientWidth).length"
    assert tab.evaluate(scrolled) == 0
    for button in tab.locator(".chart-tools button").all()[:3]:
        box = button.bounding_box()
        assert box["width"] == box["height"] >= 30
    tab.locator(".legend button").first.tap()
    assert tab.locator(".legend button").first.get_attribute("aria-pressed") == "false"
    context.close()


def test_conditions_have_colours_of_their_own_also_those_outside_the_papers_table():
    from adc_wrappers.study.conditions import BY_NAME, CONDITIONS
    from adc_wrappers.study.pictures import condition_colours

    names = [*CONDITIONS, *BY_NAME, "mine"]
    colours = condition_colours(names)
    assert list(colours) == names and len(set(colours.values())) == len(names)
    assert condition_colours(["mine", "adc"])["adc"] == colours["adc"]
