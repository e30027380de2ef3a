"use strict";
(() => {
  const data = JSON.parse(document.getElementById("report-data").textContent);
  const dark = window.matchMedia("(prefers-color-scheme: dark)");
  const hidden = new Set(); // numbers of the labels that are switched off
  const drawn = new Set(); // the plots that are on the page already

  const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  // Plotly reads a little HTML and TeX in texts; a label is to be shown as it is.
  const plain = (text) =>
    text.replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/>/g, "&gt;").replace(/\$/g, "&#36;");
  const look = (number) => data.looks[number];
  const colour = (number) => (dark.matches ? look(number).onDark : look(number).colour);
  const withAlpha = (hex, alpha) =>
    hex + Math.round(alpha * 255).toString(16).padStart(2, "0");
  const known = (values) => values.some((value) => value !== null);

  function band(series) {
    // Pieces where both ends are known, each as a closed line: up along the low end, back.
    const x = [], y = [];
    let from = null;
    for (let i = 0; i <= series.x.length; i++) {
      const here = i < series.x.length && series.low[i] !== null && series.high[i] !== null;
      if (here && from === null) from = i;
      if (!here && from !== null) {
        for (let j = from; j < i; j++) { x.push(series.x[j]); y.push(series.low[j]); }
        for (let j = i - 1; j >= from; j--) { x.push(series.x[j]); y.push(series.high[j]); }
        x.push(null); y.push(null);
        from = null;
      }
    }
    return {
      x, y, type: "scatter", mode: "none", fill: "toself", hoverinfo: "skip",
      fillcolor: withAlpha(colour(series.label), dark.matches ? 0.17 : 0.11),
    };
  }

  function single(series) {
    // All runs as one line with gaps: a trace for each would make the page slow.
    const own = withAlpha(colour(series.label), 0.4);
    return {
      x: series.runs.flatMap(() => [...series.x, null]), y: series.runs.flatMap((run) => [...run, null]),
      type: "scatter", mode: series.x.length === 1 ? "markers" : "lines", hoverinfo: "skip",
      line: { color: own, width: 1 }, marker: { color: own, size: 5 },
    };
  }

  function interval(series) {
    return series.y.map((_, i) =>
      series.low[i] === null || series.high[i] === null
        ? "" : ` [${short(series.low[i])}, ${short(series.high[i])}]`);
  }

  function short(value) {
    return value === null ? "–" : Number(value.toPrecision(3)).toLocaleString("en", { maximumSignificantDigits: 3 });
  }

  const many = (shown) => shown.length > 8; // then only the nearest line says its value

  function curve(series, _, shown) {
    const own = colour(series.label);
    return {
      x: series.x, y: series.y, type: "scatter", name: plain(look(series.label).short),
      mode: series.x.length === 1 ? "markers" : "lines",
      line: { color: own, width: look(series.label).width, dash: look(series.label).dash }, marker: { color: own, size: 8 },
      customdata: interval(series),
      hovertemplate: many(shown) ? "%{fullData.name}<br>%{y:.3~g}%{customdata}<extra></extra>" : "%{y:.3~g}%{customdata}",
    };
  }

  function errors(series) {
    const reach = (end) => series.y.map((y, i) => (y === null || end[i] === null ? 0 : Math.abs(end[i] - y)));
    return { type: "data", symmetric: false, array: reach(series.high), arrayminus: reach(series.low) };
  }

  function dot(series, place) {
    const own = colour(series.label);
    return {
      x: series.y, y: [place], type: "scatter", mode: "markers",
      name: plain(look(series.label).short), marker: { color: own, size: 11 },
      error_x: { ...errors(series), color: own, thickness: 3, width: 0 },
      customdata: interval(series), hovertemplate: "%{fullData.name}: %{x:.3~g}%{customdata}<extra></extra>",
    };
  }

  function bar(series) {
    return {
      x: series.y, y: series.x.map(plain), type: "bar", orientation: "h",
      name: plain(look(series.label).short), marker: { color: colour(series.label) },
      error_x: { ...errors(series), color: css("--ink"), thickness: 1, width: 0 },
      customdata: interval(series),
      hovertemplate: "%{fullData.name}: %{x:.3~g} %%{customdata}<extra></extra>",
    };
  }

  const traces = {
    curves: (shown) => [
      ...shown.filter((s) => s.runs === null && known(s.low)).map(band),
      ...shown.filter((s) => s.runs !== null).map(single),
      ...shown.map(curve),
    ],
    intervals: (shown) => shown.map(dot),
    bars: (shown) => shown.map(bar),
  };

  function axis(title, extra) {
    return {
      title: { text: plain(title), standoff: 8, font: { size: 12 } }, automargin: true, gridcolor: css("--line"),
      zeroline: false, linecolor: css("--line"), tickcolor: css("--line"), ...extra,
    };
  }

  function places(kind, shown) {
    if (kind === "bars") return { type: "category", autorange: "reversed" };
    return {
      tickvals: shown.map((_, place) => place), range: [shown.length - 0.4, -0.6],
      ticktext: shown.map((series) => plain(look(series.label).short)),
    };
  }

  function sides(kind, panel) {
    if (kind !== "bars") return { l: 8, r: 12 };
    // Names of many environments: Plotly would look for their room again and again.
    const longest = Math.max(...panel.series.flatMap((series) => series.x.map((name) => name.length)));
    return { l: 20 + 7.4 * longest, r: 12 };
  }

  function layout(kind, panel, shown, element) {
    const common = {
      autosize: true, height: element.clientHeight, showlegend: false,
      margin: { ...sides(kind, panel), t: 8, b: 8, pad: 2 },
      paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)",
      font: { family: css("--sans"), size: 12, color: css("--muted") },
      hoverlabel: { bgcolor: css("--card"), bordercolor: css("--line"), font: { color: css("--ink") }, namelength: -1, align: "left" },
      modebar: { bgcolor: "rgba(0,0,0,0)", color: css("--muted"), activecolor: css("--ink") }, dragmode: "zoom",
    };
    if (kind === "curves") {
      const steps = panel.xTitle === "agent steps";
      return {
        ...common, hovermode: many(shown) ? "closest" : "x unified",
        xaxis: axis(panel.xTitle, { tickformat: steps ? "~s" : "", hoverformat: steps ? ",d" : ".3~g", nticks: 6 }),
        yaxis: axis("", { range: panel.range }),
      };
    }
    const line = panel.reference === null ? [] : [{
      type: "line", xref: "x", yref: "paper", x0: panel.reference, x1: panel.reference, y0: 0, y1: 1,
      line: { color: css("--muted"), width: 1 },
    }];
    const narrow = element.clientWidth < 460;
    const long = shown.some((series) => look(series.label).short.length > 20);
    return {
      ...common, hovermode: "closest", shapes: line, barmode: "group", bargap: 0.25,
      xaxis: axis(kind === "bars" ? panel.yTitle : panel.xTitle, {
        nticks: narrow ? 4 : 6, tickangle: 0, ...(kind === "bars" || panel.limited ? { range: panel.range } : {}),
      }),
      yaxis: axis("", { ...places(kind, shown), showgrid: false, ticksuffix: "  ", automargin: kind !== "bars", tickfont: { size: narrow && long ? 10 : 12 } }),
    };
  }

  function draw(element) {
    const figure = data.figures[element.dataset.figure];
    const panel = figure.panels[Number(element.dataset.panel)];
    if (figure.kind !== "curves") {
      const lines = panel.series.reduce((sum, series) => sum + series.x.length, 0);
      const line = figure.kind === "bars" ? Math.min(1.7, 10 / panel.series.length) : 1.7;
      element.style.height = `${Math.max(7, 3.6 + line * lines)}rem`;
    }
    const shown = panel.series.filter((series) => !hidden.has(series.label));
    const settings = { displaylogo: false, responsive: true, modeBarButtonsToRemove: ["select2d", "lasso2d"] };
    const scheme = dark.matches ? "dark" : "light";
    drawn.add(element);
    Plotly.react(element, traces[figure.kind](shown), layout(figure.kind, panel, shown, element), settings)
      .then(() => { element.dataset.drawn = scheme; });
  }

  const redraw = () => drawn.forEach(draw);
  dark.addEventListener("change", redraw);

  // A study can have hundreds of panels: a plot is drawn when it comes near the screen.
  const near = new IntersectionObserver((entries) => {
    for (const entry of entries) {
      if (entry.isIntersecting) { near.unobserve(entry.target); draw(entry.target); }
    }
  }, { rootMargin: "600px" });
  const plots = document.querySelectorAll(".plot");
  plots.forEach((plot) => near.observe(plot));
  window.addEventListener("beforeprint", () => plots.forEach(draw));

  document.querySelectorAll(".chip").forEach((chip) => {
    chip.addEventListener("click", () => {
      const number = Number(chip.dataset.label);
      const off = !hidden.delete(number);
      if (off) hidden.add(number);
      chip.setAttribute("aria-pressed", String(!off));
      document.querySelectorAll(`tr[data-label="${number}"], th[data-label="${number}"]`)
        .forEach((row) => row.classList.toggle("off", off));
      redraw();
    });
  });

  function sortBy(table, header) {
    const text = header.dataset.kind === "text";
    const before = header.getAttribute("aria-sort");
    const less = header.dataset.better === "less";
    const up = before ? before === "descending" : text || less; // the best number first
    table.querySelectorAll("thead th").forEach((other) => other.removeAttribute("aria-sort"));
    header.setAttribute("aria-sort", up ? "ascending" : "descending");
    const value = (row) => row.cells[header.cellIndex].dataset.value;
    const compare = (a, b) => (text ? a.localeCompare(b, "en", { numeric: true }) : Number(a) - Number(b));
    const rows = [...table.tBodies[0].rows].sort((one, two) => {
      const [a, b] = [value(one), value(two)];
      if (a === "" || b === "") return (a === "") - (b === ""); // what is unknown stays last
      return up ? compare(a, b) : compare(b, a);
    });
    table.tBodies[0].append(...rows);
  }

  document.querySelectorAll("table.sortable").forEach((table) => {
    table.querySelectorAll("thead th").forEach((header) => {
      header.querySelector("button").addEventListener("click", () => sortBy(table, header));
    });
  });
})();
