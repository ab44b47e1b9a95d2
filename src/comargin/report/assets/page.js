"use strict";
(() => {
  const report = JSON.parse(document.getElementById("report-data").textContent);
  const dark = window.matchMedia("(prefers-color-scheme: dark)");
  const config = {
    displaylogo: false, showSendToCloud: false, plotlyServerURL: "", responsive: true,
    modeBarButtonsToRemove: ["select2d", "lasso2d", "autoScale2d"],
  };
  const opacities = report.figures.graph?.data.map((trace) => trace.opacity ?? 1);
  const paperWidth = 680;  // pixels between the margins of A4 and letter paper
  let printing = false;

  const placeOf = (name) => document.getElementById(`figure-${name}`);

  // Colours stand only under keys that say so: a label may be called "white".
  function recoloured(value, key = "") {
    if (Array.isArray(value)) return value.map((item) => recoloured(item, key));
    if (value && typeof value === "object") {
      return Object.fromEntries(Object.entries(value).map(([k, item]) => [k, recoloured(item, k)]));
    }
    const isColour = typeof value === "string" && (key.endsWith("color") || key === "shadow");
    return isColour && value in report.dark ? report.dark[value] : value;
  }

  function draw(name) {
    const { data, layout } = report.figures[name];
    const isDark = dark.matches && !printing;
    const look = isDark ? recoloured : structuredClone;
    const shape = look(layout);
    if (printing) {
      if (shape.width) shape.height *= paperWidth / shape.width;
      shape.width = paperWidth;
    }
    return Plotly.react(placeOf(name), look(data), shape, { ...config, displayModeBar: name === "graph" ? true : "hover" });
  }

  const drawAll = () => Promise.all(Object.keys(report.figures).map(draw));

  function element(tag, text) {
    const made = document.createElement(tag);
    made.textContent = text;
    return made;
  }

  // ---- one label -------------------------------------------------------------------------------------------------

  function showCurve(label) {
    const figure = report.figures.cut;
    if (!figure) return;
    const [cuts, ...measures] = label.curve ?? [[], [], [], []];
    figure.data.forEach((trace, k) => Object.assign(trace, { x: cuts, y: measures[k] }));
    cutLine(figure, label.cut);
    draw("cut");
  }

  function showScores(label) {
    const figure = report.figures.scores;
    if (!figure) return;
    const [low, high, ...groups] = label.histogram;
    const width = (high - low) / groups[0].length;
    const centers = groups[0].map((_, k) => low + width * (k + 0.5));
    figure.data.forEach((trace, k) => Object.assign(trace, { x: centers, y: groups[k] }));
    cutLine(figure, label.cut);
    draw("scores");
  }

  function cutLine(figure, cut) {
    const ink = figure.layout.font.color;
    const line = { type: "line", x0: cut, x1: cut, y0: 0, y1: 1, yref: "paper", line: { color: ink, width: 2, dash: "dash" } };
    const note = {
      x: cut, y: 0.04, yref: "paper", text: "cut in use", textangle: -90, showarrow: false, xanchor: "left",
      yanchor: "bottom",
    };
    figure.layout.shapes = cut === null ? [] : [line];
    figure.layout.annotations = cut === null ? [] : [note];
  }

  function showFeatures(label) {
    const figure = report.figures.features;
    if (!figure) return;
    const { names, shorts, weights } = label.features;
    const [positive, negative] = report.signs;
    const bar = figure.data[0];
    bar.x = weights;
    bar.y = weights.map((_, k) => k);
    bar.hovertext = names.map((name, k) => `${name}: ${weights[k]}`);
    bar.marker.color = weights.map((weight) => (weight > 0 ? positive : negative));
    Object.assign(figure.layout.yaxis, { tickvals: bar.y, ticktext: shorts });
    draw("features");
  }

  function showPairs(id, pairs) {
    const list = document.getElementById(id);
    if (!list) return;
    list.replaceChildren(...pairs.map(([name, rows]) => element("li", `${name} (${rows} ${rows === 1 ? "row" : "rows"})`)));
    if (!pairs.length) list.append(element("li", "none"));
  }

  function showFacts(label) {
    const list = document.getElementById("label-facts");
    list.replaceChildren(...label.facts.map(([term, text]) => {
      const pair = document.createElement("div");
      pair.append(element("dt", term), element("dd", text));
      return pair;
    }));
  }

  // ---- the graph -------------------------------------------------------------------------------------------------

  function showInGraph(node) {
    const figure = report.figures.graph;
    if (!figure) return;
    const { names, x, y, edges } = report.graph;
    const near = edges.filter(([i, j]) => i === node || j === node);
    const around = near.map(([i, j, weight]) => [i === node ? j : i, weight]);
    figure.data.forEach((trace, k) => {
      if (!trace.meta) trace.opacity = opacities[k] * (node < 0 ? 1 : 0.3);
    });
    const lines = figure.data.find((trace) => trace.meta === "chosen-edges");
    lines.x = near.flatMap(([i, j]) => [x[i], x[j], null]);
    lines.y = near.flatMap(([i, j]) => [y[i], y[j], null]);
    const rings = figure.data.find((trace) => trace.meta === "chosen-nodes");
    const members = node < 0 ? [] : [node, ...around.map(([other]) => other)];
    rings.x = members.map((i) => x[i]);
    rings.y = members.map((i) => y[i]);
    rings.text = members.map((i) => names[i].short);
    const told = document.getElementById("graph-choice");
    if (node < 0) {
      told.textContent = "Click on a label to see its neighbours.";
    } else {
      around.sort((a, b) => Math.abs(b[1]) - Math.abs(a[1]));
      const list = around.map(([other, weight]) => `${names[other].full} ${weight}`).join(", ");
      told.textContent = `${names[node].full}: ${around.length ? list : "no edge"}`;
    }
    draw("graph");
  }

  const nodeOf = (k) => (report.graph ? report.graph.labels.indexOf(k) : -1);

  function choose(k, { scroll = false, node = nodeOf(k) } = {}) {
    showInGraph(node);
    document.querySelectorAll("tr.chosen").forEach((row) => row.classList.remove("chosen"));
    const label = report.labels?.[k];
    if (!label) return;
    document.querySelectorAll(`#label-table button[data-label="${k}"], #feature-table button[data-label="${k}"]`)
      .forEach((button) => button.closest("tr").classList.add("chosen"));
    document.getElementById("label-choice").value = String(k);
    document.getElementById("label-name").textContent = label.name;
    showFacts(label);
    showCurve(label);
    showScores(label);
    showFeatures(label);
    showPairs("taken-for", label.takenFor);
    showPairs("taken-instead", label.takenInstead);
    if (scroll) document.getElementById("one-label").scrollIntoView();
  }

  function clickable(name, chosenBy) {
    if (!report.figures[name]) return;
    placeOf(name).on("plotly_click", ({ points }) => {
      const number = points.map((point) => point.customdata).find((value) => value !== undefined);
      if (number !== undefined) chosenBy(number);
    });
  }

  // ---- tables ----------------------------------------------------------------------------------------------------

  const valueOf = (cell) => (cell.dataset.value === undefined ? cell.textContent.trim() : Number(cell.dataset.value));

  function sortBy(head) {
    const column = [...head.parentNode.children].indexOf(head);
    const isNumber = head.className !== "text" && head.className !== "label";
    const now = head.getAttribute("aria-sort");
    const down = now === null ? isNumber : now === "ascending";
    for (const other of head.parentNode.children) other.removeAttribute("aria-sort");
    head.setAttribute("aria-sort", down ? "descending" : "ascending");
    const body = head.closest("table").tBodies[0];
    const rows = [...body.rows].map((row) => [valueOf(row.cells[column]), row]);
    const order = isNumber ? (a, b) => a[0] - b[0] : (a, b) => a[0].localeCompare(b[0], undefined, { numeric: true });
    rows.sort((a, b) => (down ? -order(a, b) : order(a, b)));
    body.append(...rows.map(([, row]) => row));
  }

  function keepRows(field) {
    const wanted = field.value.trim().toLowerCase();
    for (const row of document.getElementById(field.dataset.table).tBodies[0].rows) {
      row.hidden = !row.textContent.toLowerCase().includes(wanted);
    }
  }

  // ---- start -----------------------------------------------------------------------------------------------------

  document.addEventListener("click", (event) => {
    const button = event.target.closest("button");
    if (!button) return;
    if (button.classList.contains("sort")) sortBy(button.parentNode);
    else if (button.dataset.label !== undefined) choose(Number(button.dataset.label), { scroll: true });
  });
  document.addEventListener("input", (event) => {
    if (event.target.dataset.table) keepRows(event.target);
    if (event.target.id === "label-choice") choose(Number(event.target.value));
  });
  document.addEventListener("keydown", (event) => {
    if (event.key === "Escape") showInGraph(-1);
  });
  dark.addEventListener("change", drawAll);
  window.addEventListener("beforeprint", () => {
    printing = true;
    document.querySelectorAll("details").forEach((part) => { part.open = true; });
    drawAll();
  });
  window.addEventListener("afterprint", () => {
    printing = false;
    drawAll();
  });

  drawAll().then(() => {
    clickable("graph", (node) => choose(report.graph.labels[node], { node }));
    clickable("measures", (label) => choose(label, { scroll: true }));
    choose(report.first, { node: -1 });
    document.documentElement.dataset.ready = "yes";
  });
})();
