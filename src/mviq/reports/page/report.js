"use strict";
(() => {
  const data = JSON.parse(document.getElementById("report-data").textContent);
  const hidden = new Set(); // numbers of the labels that are switched off
  const look = (number) => data.looks[number];
  const known = (value) => value !== null;

  // ---- Small tools ---------------------------------------------------------------------------

  function make(space, name, attributes, children) {
    const element = document.createElementNS(`http://www.w3.org/${space}`, name);
    for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
    element.append(...children); // texts stay texts: no label is read as HTML
    return element;
  }
  const svg = (name, attributes, ...children) => make("2000/svg", name, attributes, children);
  const html = (name, attributes, ...children) => make("1999/xhtml", name, attributes, children);

  const pen = document.createElement("canvas").getContext("2d");
  pen.font = `12px ${getComputedStyle(document.body).fontFamily}`;
  const widest = (texts) => Math.max(0, ...texts.map((text) => pen.measureText(text).width));

  const short = (value) => Number(value.toPrecision(3)).toLocaleString("en", { maximumSignificantDigits: 3 }).replace("-", "−");
  const thousands = (value) => value.toLocaleString("en", { maximumFractionDigits: 0 });
  function compact(value) {
    const [unit, sign] = value >= 1e6 ? [1e6, "M"] : value >= 1e3 ? [1e3, "k"] : [1, ""];
    return short(value / unit) + sign;
  }

  const scale = (low, high, from, to) => (value) => from + ((value - low) / (high - low || 1)) * (to - from);
  const extent = (values) => values.reduce(([low, high], value) => [Math.min(low, value), Math.max(high, value)], [Infinity, -Infinity]);

  // Round numbers between two ends, about so many.
  function ticks(low, high, count) {
    const rough = (high - low) / Math.max(count, 1) || 1;
    const power = 10 ** Math.floor(Math.log10(rough));
    const step = [1, 2, 5, 10].map((part) => part * power).find((size) => size >= rough * 0.999);
    const first = Math.ceil(low / step - 1e-9);
    const last = Math.floor(high / step + 1e-9);
    return Array.from({ length: Math.max(last - first + 1, 0) }, (_, i) => Number(((first + i) * step).toPrecision(12)));
  }

  // With as many digits as neighbouring ticks need to differ.
  function asTick(values) {
    const digits = values.length > 1 ? Math.max(0, -Math.floor(Math.log10(values[1] - values[0]) + 1e-9)) : 3;
    return (value) => value.toLocaleString("en", { maximumFractionDigits: digits }).replace("-", "−");
  }

  const number = (series, i) => {
    const [low, high] = [series.low[i], series.high[i]];
    const between = known(low) && known(high) ? ` [${short(low)}, ${short(high)}]` : "";
    return known(series.y[i]) ? short(series.y[i]) + between : "–";
  };

  // ---- What is said under the pointer ----------------------------------------------------------

  function tell(element, x, y, heading, rows) {
    const tip = element.querySelector(".tip");
    tip.replaceChildren(...(heading ? [html("b", {}, heading)] : []),
      ...rows.map(([label, text]) => html("div", { class: `look-${label}` },
        html("i", {}), `${look(label).short}: ${text}`)));
    tip.hidden = false;
    const room = element.clientWidth - tip.offsetWidth;
    tip.style.left = `${Math.max(0, Math.min(x + 14, x + 14 > room ? x - 14 - tip.offsetWidth : room))}px`;
    tip.style.top = `${Math.max(0, Math.min(y + 10, element.clientHeight - tip.offsetHeight))}px`;
  }

  function listen(element, area, say) {
    const move = (event) => {
      const box = element.getBoundingClientRect();
      say(event.clientX - box.left, event.clientY - box.top);
    };
    area.addEventListener("pointermove", move);
    area.addEventListener("pointerdown", move);
    area.addEventListener("pointerleave", () => {
      element.querySelector(".tip").hidden = true;
      element.querySelectorAll(".cursor").forEach((line) => line.remove());
    });
  }

  // ---- Axes ----------------------------------------------------------------------------------

  function below(box, x, values, written, title) {
    return [
      ...values.map((value) => svg("text", { class: "tick x", x: x(value), y: box.bottom + 17, "text-anchor": "middle", "data-value": value }, written(value))),
      svg("text", { class: "title", x: (box.left + box.right) / 2, y: box.bottom + 36, "text-anchor": "middle" }, title),
    ];
  }

  const upright = (x, box, name) => svg("line", { class: name, x1: x, x2: x, y1: box.top, y2: box.bottom });
  const level = (y, box, name) => svg("line", { class: name, x1: box.left, x2: box.right, y1: y, y2: y });
  // What lies outside of the box is cut off by its frame.
  const inside = (box, ...children) => svg("svg", {
    x: box.left, y: box.top, width: box.right - box.left, height: box.bottom - box.top,
    viewBox: `${box.left} ${box.top} ${box.right - box.left} ${box.bottom - box.top}`,
  }, ...children);

  // ---- Curves --------------------------------------------------------------------------------

  function line(xs, ys, x, y) {
    let path = "", down = false;
    xs.forEach((value, i) => {
      if (known(ys[i])) path += `${down ? "L" : "M"}${x(value).toFixed(1)},${y(ys[i]).toFixed(1)}`;
      down = known(ys[i]);
    });
    return path;
  }

  function band(series, x, y) {
    // Pieces where both ends are known, each as a closed line: along the low end, and back.
    const here = series.x.map((_, i) => known(series.low[i]) && known(series.high[i]));
    let path = "";
    for (let from = 0, to; from < here.length; from = to + 1) {
      for (to = from; here[to]; to++);
      const places = Array.from({ length: to - from }, (_, i) => from + i);
      const at = (ends) => (i) => `${x(series.x[i]).toFixed(1)},${y(ends[i]).toFixed(1)}`;
      if (places.length) path += `M${[...places.map(at(series.low)), ...places.reverse().map(at(series.high))].join("L")}Z`;
    }
    return path;
  }

  function curve(series, x, y) {
    const { width, dash } = look(series.label);
    const marks = { "stroke-width": width, ...(dash ? { "stroke-dasharray": dash } : {}) };
    const alone = series.x.length === 1 && known(series.y[0]);
    const runs = (series.runs ?? []).map((run) => (series.x.length === 1
      ? svg("circle", { class: "run", cx: x(series.x[0]), cy: y(run[0] ?? NaN), r: 2.5 })
      : svg("path", { class: "run", d: line(series.x, run, x, y) })));
    return svg("g", { class: `series look-${series.label}`, "data-label": series.label },
      ...(series.runs === null ? [svg("path", { class: "band", d: band(series, x, y) })] : runs),
      alone ? svg("circle", { class: "dot", cx: x(series.x[0]), cy: y(series.y[0]), r: 4 })
        : svg("path", { class: "curve", d: line(series.x, series.y, x, y), ...marks }));
  }

  function curves(element, panel, shown) {
    const steps = panel.xTitle === "agent steps";
    const [low, high] = panel.range;
    const heights = ticks(low, high, element.clientHeight / 42);
    const box = { left: 12 + widest(heights.map(asTick(heights))), right: element.clientWidth - 14, top: 8, bottom: element.clientHeight - 44 };
    const [first, last] = extent(panel.series.flatMap((series) => series.x));
    const x = first === last ? scale(first - 1, first + 1, box.left, box.right) : scale(first, last, box.left, box.right);
    const y = scale(low, high, box.bottom, box.top);
    const widths = first === last ? [first] : ticks(first, last, (box.right - box.left) / 48);
    const area = svg("rect", { class: "area", x: box.left, y: box.top, width: box.right - box.left, height: box.bottom - box.top });
    listen(element, area, (px, py) => underPointer(element, shown, box, x, y, px, py, steps ? thousands : short));
    return [
      ...heights.map((value) => level(y(value), box, "grid")),
      ...heights.map((value) => svg("text", { class: "tick y", x: box.left - 7, y: y(value) + 4, "text-anchor": "end", "data-value": value }, asTick(heights)(value))),
      ...below(box, x, widths, steps ? compact : asTick(widths), panel.xTitle),
      inside(box, ...shown.map((series) => curve(series, x, y))), area,
    ];
  }

  const nearest = (list, distance) => list.reduce((best, item) => (distance(item) < distance(best) ? item : best), list[0]);

  function underPointer(element, shown, box, x, y, px, py, written) {
    const places = shown.map((series) => nearest([...series.x.keys()], (i) => Math.abs(x(series.x[i]) - px)));
    const found = shown.map((series, k) => ({ series, i: places[k] })).filter(({ series, i }) => i !== undefined && known(series.y[i]));
    if (!found.length) return;
    const at = nearest(found.map(({ series, i }) => series.x[i]), (value) => Math.abs(x(value) - px));
    const here = found.filter(({ series, i }) => series.x[i] === at);
    const many = here.length > 8; // then only the nearest line says its value
    const said = many ? [nearest(here, ({ series, i }) => Math.abs(y(series.y[i]) - py))] : here;
    element.querySelectorAll(".cursor").forEach((old) => old.remove());
    element.querySelector("svg").insertBefore(upright(x(at), box, "cursor"), element.querySelector(".area"));
    tell(element, x(at), py, written(at), said.map(({ series, i }) => [series.label, number(series, i)]));
  }

  // ---- Intervals and bars: rows with their names above them, so that a long name has room -------

  const TALL = { intervals: 40, bar: 14, group: 30 };

  function rowsAxis(element, panel, height, ends) {
    const box = { left: 8, right: element.clientWidth - 12, top: 4, bottom: height - 44 };
    const x = scale(...ends, box.left, box.right);
    const values = ticks(...ends, (box.right - box.left) / 60);
    const reference = panel.reference === null ? [] : [upright(x(panel.reference), box, "reference")];
    return { box, x, grid: [...values.map((value) => upright(x(value), box, "grid")), ...reference], values };
  }

  function spread(panel) {
    if (panel.limited) return panel.range;
    const all = panel.series.flatMap((series) => [...series.y, ...series.low, ...series.high]).filter(known);
    const [low, high] = extent(panel.reference === null ? all : [...all, panel.reference]);
    const padding = 0.06 * (high - low) || 0.5;
    return all.length ? [low - padding, high + padding] : [0, 1];
  }

  // A mark for a number, a line for its interval, and both under the pointer.
  function row(element, series, i, x, middle, mark, heading, unit = "") {
    const [low, high] = [series.low[i], series.high[i]];
    const reach = known(low) && known(high) ? [svg("line", { class: "reach", x1: x(low), x2: x(high), y1: middle, y2: middle })] : [];
    const group = svg("g", { class: `series look-${series.label}`, "data-label": series.label }, ...mark, ...reach,
      svg("rect", { class: "area", x: 0, y: middle - 8, width: element.clientWidth, height: 16 }));
    listen(element, group, (px, py) => tell(element, px, py, heading, [[series.label, number(series, i) + unit]]));
    return group;
  }

  function intervals(element, panel, shown) {
    const { box, x, grid, values } = rowsAxis(element, panel, element.clientHeight, spread(panel));
    return [...grid, ...below(box, x, values, asTick(values), panel.xTitle), inside(box, ...shown.flatMap((series, place) => {
      const top = box.top + place * TALL.intervals;
      const dot = known(series.y[0]) ? [svg("circle", { class: "dot", cx: x(series.y[0]), cy: top + 27, r: 5 })] : [];
      return [svg("text", { class: "name", x: box.left + 2, y: top + 14 }, look(series.label).short),
        row(element, series, 0, x, top + 27, dot, "")];
    }))];
  }

  const places = (panel) => [...new Set(panel.series.flatMap((series) => series.x))];

  function bars(element, panel, shown) {
    const { box, x, grid, values } = rowsAxis(element, panel, element.clientHeight, panel.range);
    const drawn = [];
    let top = box.top;
    for (const name of places(panel)) {
      drawn.push(svg("text", { class: "name", x: box.left + 2, y: top + 14 }, name));
      top += 20;
      for (const series of shown) {
        const i = series.x.indexOf(name);
        if (i < 0 || !known(series.y[i])) continue;
        const [from, to] = extent([x(0), x(series.y[i])]);
        const bar = svg("rect", { class: "bar", x: from, y: top, width: Math.max(to - from, 1), height: TALL.bar - 3 });
        drawn.push(row(element, series, i, x, top + (TALL.bar - 3) / 2, [bar], name, " %"));
        top += TALL.bar;
      }
      top += TALL.group - 20;
    }
    return [...grid, ...below(box, x, values, asTick(values), panel.yTitle), inside(box, ...drawn)];
  }

  const height = {
    intervals: (panel, shown) => 52 + TALL.intervals * Math.max(shown.length, 1),
    bars: (panel, shown) => 52 + places(panel).length * (TALL.group + TALL.bar * shown.length),
  };

  // ---- The page ------------------------------------------------------------------------------

  const kinds = { curves, intervals, bars };

  function draw(element) {
    const figure = data.figures[element.dataset.figure];
    const panel = figure.panels[Number(element.dataset.panel)];
    const shown = panel.series.filter((series) => !hidden.has(series.label));
    if (figure.kind in height) element.style.height = `${height[figure.kind](panel, shown)}px`;
    const { clientWidth, clientHeight } = element;
    if (!clientWidth) return; // folded away: drawn when it is opened
    element.replaceChildren(svg("svg", { width: clientWidth, height: clientHeight, "aria-hidden": "true" }), html("div", { class: "tip", hidden: "" }));
    element.firstChild.append(...kinds[figure.kind](element, panel, shown));
    element.dataset.drawn = clientWidth;
  }

  // Draws every plot at once, and again when its width changes: a turned phone, an opened fold, paper.
  const plots = document.querySelectorAll(".plot");
  const widths = new ResizeObserver((entries) => entries.forEach(({ target }) => {
    if (target.clientWidth !== Number(target.dataset.drawn)) draw(target);
  }));
  plots.forEach((plot) => widths.observe(plot));
  const redraw = () => plots.forEach(draw);

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
