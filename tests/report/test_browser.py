"""The page in a real browser: it draws, complains about nothing, loads nothing, and reacts."""

import numpy as np
import pytest
from tests.report.chromium import NAMES, Chromium, find_chromium
from tests.report.test_model_report import HOSTILE, Page

from comargin import M3LClassifier
from comargin.decisions import ThresholdClassifierCV
from comargin.report import model_report, save_figure, save_report
from comargin.report.theme import DARK

LABELS = (*HOSTILE, "white", "sky", "sea")


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    executable = find_chromium()
    if executable is None:
        pytest.skip(f"no Chromium on the path ({', '.join(NAMES)})")
    browser = Chromium(executable, tmp_path_factory.mktemp("profile"))
    yield browser
    browser.close()


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(120, 8))
    Y = (X[:, :7] + 0.5 * X[:, 1:] + 0.7 * rng.normal(size=(120, 7)) > 0.4).astype(int)
    # The long number makes a word that a narrow window has no room for.
    model = ThresholdClassifierCV(M3LClassifier(random_state=2**31 - 1), cv=2).fit(X, Y)
    features = [*HOSTILE, "e", "f", "g", "h"]
    page = model_report(model, (X, Y), label_names=LABELS, feature_names=features, title=HOSTILE[0])
    return save_report(page, tmp_path_factory.mktemp("page") / "report.html")


@pytest.fixture
def opened(browser, written):
    browser.colours("light")
    browser.open(written)
    return browser


def test_it_draws_everything_and_complains_about_nothing(opened, written):
    figures = Page(written.read_text(encoding="utf-8")).data["figures"]
    drawn = opened.evaluate(
        "[...document.querySelectorAll('.figure')].filter((f) => f.querySelector('.main-svg')"
        " && f.getBoundingClientRect().height > 100).map((f) => f.id.slice(7))"
    )
    assert sorted(drawn) == sorted(figures)
    assert opened.complaints() == []
    assert opened.requests() == [written.as_uri()]
    assert opened.evaluate("window.hacked") is None
    assert opened.evaluate("document.title") == HOSTILE[0]
    assert opened.evaluate("document.querySelector('h1').textContent") == HOSTILE[0]
    assert opened.evaluate("[...document.querySelectorAll('img, iframe')].length") == 0


def place_of_node(browser, node):
    """Point of the window where a label of the graph is drawn."""
    return browser.evaluate(
        f"""(() => {{
            const gd = document.getElementById('figure-graph');
            gd.scrollIntoView({{ behavior: 'instant', block: 'center' }});
            const trace = gd.data.find((t) => t.customdata && t.customdata.includes({node}));
            const k = trace.customdata.indexOf({node});
            const {{ xaxis, yaxis }} = gd._fullLayout;
            const box = gd.getBoundingClientRect();
            return [box.left + xaxis._offset + xaxis.l2p(trace.x[k]), box.top + yaxis._offset + yaxis.l2p(trace.y[k])];
        }})()"""
    )


def test_the_graph_reacts(opened, written):
    graph = Page(written.read_text(encoding="utf-8")).data["graph"]
    node = 0  # its name is hostile
    x, y = place_of_node(opened, node)
    assert opened.evaluate("document.getElementById('graph-choice').textContent").startswith("Click on a label")
    opened.send("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)
    opened.wait_for("document.querySelector('#figure-graph .hovertext') !== null")
    hovered = opened.evaluate("document.querySelector('#figure-graph .hovertext').textContent")
    assert LABELS[node] in hovered
    opened.click(x, y)
    opened.wait_for("!document.getElementById('graph-choice').textContent.startsWith('Click')")
    told = opened.evaluate("document.getElementById('graph-choice').textContent")
    assert told.startswith(f"{LABELS[node]}: ")
    neighbours = {LABELS[i + j - node] for i, j, _ in graph["edges"] if node in (i, j)}
    assert neighbours
    assert all(name in told for name in neighbours)
    rings = "document.getElementById('figure-graph').data.find((t) => t.meta === 'chosen-nodes').x.length"
    assert opened.evaluate(rings) == 1 + len(neighbours)
    # The section about one label follows.
    assert opened.evaluate("document.getElementById('label-name').textContent") == LABELS[node]
    assert opened.evaluate("document.getElementById('label-choice').value") == str(node)
    opened.send("Input.dispatchKeyEvent", type="keyDown", key="Escape")
    opened.wait_for(f"{rings} === 0")
    assert opened.complaints() == []
    assert opened.evaluate("window.hacked") is None


def test_a_chosen_label_fills_its_section(opened, written):
    details = Page(written.read_text(encoding="utf-8")).data["labels"]
    for k in (3, 5):
        opened.evaluate(
            f"""(() => {{
                const choice = document.getElementById('label-choice');
                choice.value = '{k}';
                choice.dispatchEvent(new Event('input', {{ bubbles: true }}));
            }})()"""
        )
        assert opened.evaluate("document.getElementById('label-name').textContent") == LABELS[k]
        shown = opened.evaluate(
            "(() => { const gd = document.getElementById('figure-cut');"
            " return [gd.data.map((t) => t.y), gd.layout.shapes.map((s) => s.x0), gd.data[0].x]; })()"
        )
        assert shown[0] == details[k]["curve"][1:]
        assert shown[1] == [details[k]["cut"]]
        assert shown[2] == details[k]["curve"][0]
        bars = opened.evaluate("document.getElementById('figure-features').data[0].x")
        assert bars == details[k]["features"]["weights"]
        facts = opened.evaluate("document.getElementById('label-facts').textContent")
        assert facts == "".join(term + text for term, text in details[k]["facts"])
    assert opened.complaints() == []


def test_tables_sort_both_ways_and_lead_to_the_label(opened):
    cells = "[...document.querySelectorAll('#label-table tbody td:nth-child(6)')].map((c) => Number(c.dataset.value))"
    before = opened.evaluate(cells)
    head = "document.querySelector('#label-table th:nth-child(6)')"
    opened.evaluate(f"{head}.querySelector('button').click()")
    assert opened.evaluate(cells) == sorted(before, reverse=True)
    assert opened.evaluate(f"{head}.getAttribute('aria-sort')") == "descending"
    opened.evaluate(f"{head}.querySelector('button').click()")
    assert opened.evaluate(cells) == sorted(before)
    opened.evaluate("document.querySelector('#label-table button[data-label=\"6\"]').click()")
    assert opened.evaluate("document.getElementById('label-name').textContent") == "sea"
    assert opened.evaluate("document.querySelector('#label-table tr.chosen td').textContent") == "sea"


def test_dark_and_paper_change_the_colours_but_not_the_names(opened):
    background = "document.getElementById('figure-graph')._fullLayout.paper_bgcolor"
    names = "document.getElementById('figure-graph').data.filter((t) => t.customdata).flatMap((t) => t.text)"
    assert opened.evaluate(background) == "white"
    before = opened.evaluate(names)
    assert "white" in before
    opened.colours("dark")
    opened.wait_for(f"{background} === '{DARK['white']}'")
    assert opened.evaluate("getComputedStyle(document.body).color") == "rgb(230, 233, 237)"
    assert opened.evaluate(names) == before
    opened.evaluate("window.dispatchEvent(new Event('beforeprint'))")
    opened.wait_for(f"{background} === 'white'")
    assert opened.evaluate("[...document.querySelectorAll('details')].every((part) => part.open)")
    assert opened.evaluate("[...document.querySelectorAll('.figure .main-svg')].every((f) => f.clientWidth <= 680)")
    opened.evaluate("window.dispatchEvent(new Event('afterprint'))")
    opened.wait_for(f"{background} === '{DARK['white']}'")
    opened.colours("light")
    opened.wait_for(f"{background} === 'white'")
    assert opened.complaints() == []


def test_nothing_is_wider_than_a_narrow_window(opened, written):
    size = {"height": 800, "deviceScaleFactor": 1, "mobile": True}
    opened.send("Emulation.setDeviceMetricsOverride", width=390, **size)
    opened.open(written)
    assert opened.evaluate("document.documentElement.scrollWidth") == 390
    opened.send("Emulation.clearDeviceMetricsOverride")


def test_no_button_sends_data_away(opened, tmp_path):
    from comargin.core.result import Checkpoint
    from comargin.report import objective_figure

    titles = "[...document.querySelectorAll('.modebar-btn')].map((b) => b.dataset.title)"
    assert not [title for title in opened.evaluate(titles) if "hare" in title or "loud" in title]
    figure = objective_figure({"a": [Checkpoint(1, 0.1, 2.0, 1.0), Checkpoint(2, 0.2, 1.5, 1.4)]})
    opened.open(save_figure(figure, tmp_path / "figure.html"), ready="document.querySelector('.modebar-btn') !== null")
    assert not [title for title in opened.evaluate(titles) if "hare" in title or "loud" in title]
