// The explorer: Tsallis policies of a few action values, computed and drawn while sliders move.
// Tested in a browser against the numbers of mviq.tsallis (tests/test_site.py).
"use strict";

(() => {
  // ---- The mathematics, as in mviq.tsallis -------------------------------------------------------

  const sum = (list) => list.reduce((total, x) => total + x, 0);

  function logQ(x, q) {
    if (q === 1) return Math.log(x);
    if (q === Infinity) return x < 1 ? -0 : 0; // the limit for 0 < x <= 1
    return x === 0 ? (q > 1 ? -1 / (q - 1) : -Infinity) : Math.expm1((q - 1) * Math.log(x)) / (q - 1);
  }

  function expQ(x, q) {
    if (q === 1) return Math.exp(x);
    const inside = (q - 1) * x;
    return inside <= -1 ? (q > 1 ? 0 : Infinity) : Math.exp(Math.log1p(inside) / (q - 1));
  }

  // The zero of a function that falls between low (positive) and high, by halving.
  function zero(f, low, high) {
    for (let i = 0; i < 200; i++) {
      const middle = (low + high) / 2;
      if (middle === low || middle === high) break;
      if (f(middle) > 0) low = middle; else high = middle;
    }
    return (low + high) / 2;
  }

  // Return { policy, psi }: policy = exp_q(z - psi) sums to one.
  function solve(z, q) {
    const top = Math.max(...z), d = z.map((x) => x - top);
    if (q === Infinity) {
      const best = d.filter((x) => x === 0).length;
      return { policy: d.map((x) => (x === 0 ? 1 / best : 0)), psi: top };
    }
    if (q === 1) {
      const mass = sum(d.map(Math.exp));
      return { policy: d.map((x) => Math.exp(x) / mass), psi: top + Math.log(mass) };
    }
    if (q < 1) {
      const n = z.length, most = -logQ(1 / n, q); // psi lies between that of one and of n equal actions
      const psi = zero((psi) => sum(d.map((x) => expQ(x - psi, q))) - 1, 0, most);
      return { policy: d.map((x) => expQ(x - psi, q)), psi: top + psi };
    }
    // The logarithm of the smallest supported probability is the unknown: nothing is lost to a steep
    // root, nor near q = 1, where that probability can be smaller than any number but zero.
    const power = 1 / (q - 1);
    const inside = (x) => sum(d.filter((y) => y > x).map((y) => ((q - 1) * (y - x)) ** power)) < 1;
    const kept = d.filter(inside), least = Math.min(...kept);
    const mass = (x, log) => (Math.exp((q - 1) * log) + (q - 1) * (x - least)) ** power;
    const log = zero((log) => 1 - sum(kept.map((x) => mass(x, log))), -745 * Math.max(power, 1), -Math.log(kept.length));
    return { policy: d.map((x) => (inside(x) ? mass(x, log) : 0)), psi: top + least - Math.expm1((q - 1) * log) * power };
  }

  function entropy(policy, q) {
    if (q === Infinity) return 0;
    return -sum(policy.map((p) => (p === 0 ? 0 : p * logQ(p, q))));
  }

  // Everything that is shown of one policy.
  function study(values, q, tau) {
    const { policy, psi } = solve(values.map((x) => x / tau), q);
    const mean = sum(policy.map((p, i) => p * values[i]));
    return {
      policy, support: policy.filter((p) => p > 0).length, entropy: entropy(policy, q),
      softMaximum: mean, softValue: tau * psi, gaps: values.map((x) => x - mean),
    };
  }

  // ---- State: the address after # keeps it, so that a picture can be sent as a link ---------------

  const steps = (from, to, by) => Array.from({ length: Math.round((to - from) / by) + 1 }, (_, i) => Number((from + i * by).toFixed(4)));
  const QS = [...steps(0.5, 3, 0.05), ...steps(3.25, 10, 0.25), 20, 50, Infinity];
  const state = { q: 2, tau: 0.5, values: [1, 0.8, 0.3, -0.5] };

  function read() {
    const found = new URLSearchParams(location.hash.slice(1));
    const number = (text) => (text === "inf" ? Infinity : Number(text));
    const q = number(found.get("q") ?? ""), tau = number(found.get("tau") ?? "");
    const values = (found.get("values") ?? "").split(",").map(Number);
    if (q > 0) state.q = q;
    if (tau > 0 && tau < Infinity) state.tau = tau;
    if (values.length >= 2 && values.length <= 8 && values.every(Number.isFinite)) state.values = values;
  }

  function write() {
    const q = state.q === Infinity ? "inf" : state.q;
    history.replaceState(null, "", `#q=${q}&tau=${state.tau}&values=${state.values.join(",")}`);
  }

  // ---- Drawing --------------------------------------------------------------------------------

  const place = document.getElementById("tsallis-explorer");
  const short = (x) => (x === Infinity ? "∞" : Math.abs(x) < 5e-4 ? "0" : Number(x.toPrecision(3)).toString());
  const svg = (name, attributes, ...children) => make("http://www.w3.org/2000/svg", name, attributes, children);
  const html = (name, attributes, ...children) => make("http://www.w3.org/1999/xhtml", name, attributes, children);

  function make(space, name, attributes, children) {
    const element = document.createElementNS(space, name);
    for (const [key, value] of Object.entries(attributes ?? {})) element.setAttribute(key, value);
    element.append(...children);
    return element;
  }

  const slider = (label, attributes, change) => {
    const input = html("input", { type: "range", "aria-label": label, ...attributes });
    input.addEventListener("input", () => { change(Number(input.value)); update(); });
    return input;
  };

  const nearest = (q) => QS.reduce((best, x, i) => (Math.abs(1 / x - 1 / q) < Math.abs(1 / QS[best] - 1 / q) ? i : best), 0);
  const controls = {
    q: slider("q", { min: 0, max: QS.length - 1, step: 1, id: "explorer-q" }, (i) => { state.q = QS[i]; }),
    tau: slider("temperature", { min: -2, max: 1, step: 0.02, id: "explorer-tau" }, (x) => { state.tau = Number((10 ** x).toPrecision(3)); }),
  };
  const shown = { q: html("output", { for: "explorer-q" }), tau: html("output", { for: "explorer-tau" }) };
  const actions = html("div", { class: "actions" });
  const table = html("tbody");
  const plots = html("div", { class: "plots" });

  const KINDS = [["own", () => state.q], ["softmax", () => 1], ["sparsemax", () => 2]];
  const name = (kind) => (kind === "own" ? `q = ${short(state.q)}` : kind);

  function button(text, title, act) {
    const element = html("button", { type: "button", title }, text);
    element.addEventListener("click", () => { act(); build(); update(); });
    return element;
  }

  const choices = [[1, "1 softmax"], [1.5, "1.5"], [2, "2 sparsemax"], [3, "3"], [5, "5"], [Infinity, "∞ greedy"]];
  place.append(
    html("div", { class: "control" }, html("label", { for: "explorer-q" }, "Entropic index q"), shown.q, controls.q,
      html("div", { class: "choices" }, ...choices.map(([q, text]) => button(text, `q = ${text}`, () => { state.q = q; })))),
    html("div", { class: "control" }, html("label", { for: "explorer-tau" }, "Temperature τ"), shown.tau, controls.tau),
    html("div", { class: "choices" },
      button("+ action", "one more action", () => { if (state.values.length < 8) state.values.push(0); }),
      button("− action", "one action less", () => { if (state.values.length > 2) state.values.pop(); })),
    html("p", { class: "legend" }, ...KINDS.map(([kind]) => html("span", { class: kind, "data-name": kind }))),
    actions,
    html("div", { class: "table-wrapper" }, html("table", { class: "docutils" }, html("thead", null, html("tr", null,
      ...["policy", "support", "entropy", "⟨π, Q⟩", "τψ"].map((head) => html("th", null, head)))), table)),
    plots,
  );

  let rows = [];
  function build() {
    rows = state.values.map((value, i) => {
      const row = {
        input: slider(`value of action ${i + 1}`, { min: -2, max: 2, step: 0.05, "data-value-of": i }, (x) => { state.values[i] = x; }),
        output: html("output"), gap: html("span", { class: "gap", "data-gap": i }),
        bars: KINDS.map(([kind]) => {
          const bar = html("span", { class: `bar ${kind}` }), number = html("span", { class: "number", "data-policy": kind, "data-action": i });
          return { bar, number, whole: html("div", { class: "track" }, bar, number) };
        }),
      };
      row.whole = html("div", { class: "action" },
        html("div", { class: "value" }, html("span", null, `Q(a${"₁₂₃₄₅₆₇₈"[i]})`), row.input, row.output),
        html("div", { class: "bars" }, ...row.bars.map((bar) => bar.whole)), row.gap);
      return row;
    });
    actions.replaceChildren(...rows.map((row) => row.whole));
  }

  // A number with all its digits beside what is shown of it.
  function put(element, value, text = short(value)) {
    element.textContent = text;
    element.dataset.exact = value;
  }

  function update() {
    const { values, q, tau } = state;
    const found = Object.fromEntries(KINDS.map(([kind, index]) => [kind, study(values, index(), tau)]));
    controls.q.value = nearest(q);
    controls.tau.value = Math.log10(tau);
    put(shown.q, q);
    put(shown.tau, tau);
    place.querySelectorAll(".legend span").forEach((span) => { span.textContent = name(span.dataset.name); });
    rows.forEach((row, i) => {
      row.input.value = values[i];
      row.output.textContent = values[i].toFixed(2).replace("-", "−");
      row.whole.classList.toggle("out", found.own.policy[i] === 0);
      KINDS.forEach(([kind], k) => {
        const p = found[kind].policy[i];
        row.bars[k].bar.style.width = `${100 * p}%`;
        put(row.bars[k].number, p, p === 0 ? "0" : p.toFixed(3));
      });
      put(row.gap, found.own.gaps[i], `gap ${found.own.gaps[i] < 0 ? "−" : "+"}${Math.abs(found.own.gaps[i]).toFixed(2)}`);
    });
    table.replaceChildren(...KINDS.map(([kind]) => html("tr", { "data-row": kind }, html("th", { class: kind }, name(kind)),
      ...["support", "entropy", "softMaximum", "softValue"].map((what) => {
        const cell = html("td", { "data-what": what });
        put(cell, found[kind][what]);
        return cell;
      }))));
    const along = GRID.map((index) => study(values, index, tau));
    plots.replaceChildren(
      plot("Probability of each action, as q changes", along, values.map((_, i) => ({ text: `a${"₁₂₃₄₅₆₇₈"[i]}`, of: (s) => s.policy[i] }))),
      plot("Entropy S_q, and the gap of the best action", along, [
        { text: "entropy", of: (s) => s.entropy }, { text: "gap", of: (s) => Math.max(...s.gaps) }]),
    );
    write();
  }

  const GRID = steps(0.5, 6, 0.05);
  function plot(title, along, lines) {
    const [w, h, left, right, bottom] = [440, 220, 30, 58, 24];
    const top = Math.ceil(Math.max(1, ...lines.flatMap((line) => along.map(line.of))));
    const x = (q) => left + (w - left - right) * ((Math.min(Math.max(q, 0.5), 6) - 0.5) / 5.5), y = (p) => h - bottom - (h - bottom - 10) * (p / top);
    const path = (line) => along.map((s, i) => `${i ? "L" : "M"}${x(GRID[i]).toFixed(1)},${y(line.of(s)).toFixed(1)}`).join("");
    const ends = spread(lines.map((line) => y(line.of(along[along.length - 1]))), 12);
    const picture = svg("svg", { viewBox: `0 0 ${w} ${h}`, role: "img", "aria-label": title },
      ...[0, 0.5, 1].map((part) => svg("g", { class: "grid" },
        svg("line", { x1: left, x2: w - right, y1: y(part * top), y2: y(part * top) }),
        svg("text", { x: left - 6, y: y(part * top) + 4, "text-anchor": "end" }, short(part * top)))),
      ...[1, 2, 3, 4, 5, 6].map((q) => svg("text", { x: x(q), y: h - 6, "text-anchor": "middle" }, `${q === 1 ? "q = " : ""}${q}`)),
      svg("line", { class: "now", x1: x(state.q), x2: x(state.q), y1: 10, y2: h - bottom }),
      ...lines.map((line, i) => svg("path", { class: `line line${i}`, d: path(line) })),
      ...lines.map((line, i) => svg("text", { class: `name name${i}`, x: w - right + 4, y: ends[i] + 4 }, line.text)));
    return html("figure", null, html("figcaption", null, title), picture);
  }

  // Move the names at the right of lines apart.
  function spread(places, room) {
    const order = places.map((_, i) => i).sort((a, b) => places[b] - places[a]);
    const moved = [...places];
    order.slice(1).forEach((i, k) => { moved[i] = Math.min(moved[i], moved[order[k]] - room); });
    return moved;
  }

  read();
  build();
  update();
  window.addEventListener("hashchange", () => { read(); build(); update(); });
})();
