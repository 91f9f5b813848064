"use strict";
// Where scripts run, a page has tables that sort and filter, plots that zoom and tell their values, and a batch slider.
// Without it, or where any part of it fails, the page that the program wrote stays as it is.

const data = JSON.parse(document.getElementById("noisemark-data").textContent);

/** An element with attributes and children; texts become text nodes, never markup. */
function make(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...children);
  return element;
}

const short = (number) => (Number.isFinite(number) ? String(Number(number.toPrecision(6))) : "none");
const MIB = 1024 * 1024;

// ---- Tables

const UNITS = {B: 1, KiB: 1024, MiB: MIB, GiB: 1024 * MIB, TiB: MIB * MIB, ns: 1e-9, "µs": 1e-6, us: 1e-6, ms: 1e-3, s: 1, min: 60, h: 3600,
  FLOP: 1, kFLOP: 1e3, MFLOP: 1e6, GFLOP: 1e9, TFLOP: 1e12, "FLOP/s": 1, "MFLOP/s": 1e6, "GFLOP/s": 1e9, "TFLOP/s": 1e12};

/** The number with which a cell begins, in its base unit; NaN where it begins with none. */
function numberOf(text) {
  const match = /^[+-]?[\d,]*\.?\d+(?:e[+-]?\d+)?/i.exec(text);
  if (!match) return NaN;
  const unit = text.slice(match[0].length).trim().split(/[\s,;)]/)[0];
  return Number(match[0].replaceAll(",", "")) * (UNITS[unit] ?? 1);
}

function cellText(row, column) {
  return (row.cells[column]?.textContent ?? "").replaceAll("\u00a0", " ").trim();
}

/** Numbers before words, and cells without anything last. */
function compareCells(a, b) {
  if ((a === "") !== (b === "")) return a === "" ? 1 : -1;
  const [x, y] = [numberOf(a), numberOf(b)];
  if (!Number.isNaN(x) && !Number.isNaN(y)) return x - y;
  if (Number.isNaN(x) !== Number.isNaN(y)) return Number.isNaN(x) ? 1 : -1;
  return a.localeCompare(b);
}

function sortBy(table, order, header) {
  const column = header.cellIndex;
  const next = {ascending: "descending", descending: "none"}[header.ariaSort] ?? "ascending";
  for (const other of table.tHead.rows[0].cells) other.ariaSort = "none";
  header.ariaSort = next;
  const rows = [...order];
  if (next !== "none") {
    const sign = next === "ascending" ? 1 : -1;
    rows.sort((a, b) => sign * compareCells(cellText(a, column), cellText(b, column)));
  }
  table.tBodies[0].append(...rows);
}

function makeSortable(table) {
  const order = [...table.tBodies[0].rows];
  for (const header of table.tHead.rows[0].cells) {
    if (header.textContent.trim() === "") continue;
    const button = make("button", {type: "button", title: "Sort by this column"}, ...header.childNodes);
    button.addEventListener("click", () => sortBy(table, order, header));
    header.append(button);
    header.ariaSort = "none";
  }
}

function makeFilter(table) {
  const rows = [...table.tBodies[0].rows];
  const words = make("input", {type: "search"});
  const only = make("input", {type: "checkbox"});
  const count = make("span", {role: "status"});
  const tools = make("div", {class: "tools"}, make("label", {}, "Filter ", words));
  if (table.classList.contains("fields")) {
    only.checked = true;
    tools.append(make("label", {}, only, " only what differs"));
  }
  tools.append(count);
  const show = () => {
    const wanted = words.value.toLowerCase();
    let shown = 0;
    for (const row of rows) {
      row.hidden = (only.checked && !row.classList.contains("differs")) || !row.textContent.toLowerCase().includes(wanted);
      if (!row.hidden) ++shown;
    }
    count.textContent = shown === rows.length ? `${rows.length} rows` : `${shown} of ${rows.length} rows`;
  };
  words.addEventListener("input", show);
  only.addEventListener("change", show);
  table.parentElement.before(tools);
  show();
}

/** A wide table scrolls by keyboard too. */
function makeScrollable(frame) {
  if (frame.scrollWidth <= frame.clientWidth) return;
  frame.tabIndex = 0;
  frame.setAttribute("role", "region");
  frame.setAttribute("aria-label", "Table that scrolls");
}

/** Everything that is folded is printed, and a link to it opens it. */
function enhanceFolds() {
  const folds = [...document.querySelectorAll("main details")];
  const openAround = (id) => {
    const target = document.getElementById(decodeURIComponent(id));
    for (let fold = target?.closest("details"); fold; fold = fold.parentElement.closest("details")) fold.open = true;
    target?.scrollIntoView();
  };
  for (const fold of folds) {
    fold.addEventListener("toggle", () => fold.querySelectorAll(".scroll").forEach(makeScrollable));
  }
  addEventListener("beforeprint", () => folds.forEach((fold) => { fold.dataset.closed = fold.open ? "" : "yes"; fold.open = true; }));
  addEventListener("afterprint", () => folds.forEach((fold) => { fold.open = fold.dataset.closed !== "yes"; }));
  addEventListener("hashchange", () => openAround(location.hash.slice(1)));
  openAround(location.hash.slice(1));
}

function enhanceTables() {
  for (const table of document.querySelectorAll("main table")) {
    const rows = table.tBodies[0]?.rows.length ?? 0;
    if (rows > 1) makeSortable(table);
    if (rows > 7) makeFilter(table);
    makeScrollable(table.parentElement);
  }
}

// ---- The scripts of gnuplot that drew the pictures, as far as this project writes them

/** Splits at commas outside of quotes and brackets. */
function splitCurves(text) {
  const parts = text.match(/(?:'(?:[^']|'')*'|\[[^\]]*\]|\([^)]*\)|[^,'[(])+/g) ?? [];
  return parts.map((part) => part.trim()).filter((part) => part !== "");
}

const quoted = (text) => /^'((?:[^']|'')*)'/.exec(text)?.[1].replaceAll("''", "'");
const bound = (text) => (text === "*" || text === "" ? null : Number(text));

function readRange(text) {
  const match = /^\[([^:]*):([^\]]*)\]/.exec(text);
  return match ? [bound(match[1]), bound(match[2])] : null;
}

/** `3`, `(0)` or `($1+1)` as a function of a row. */
function readColumn(text) {
  if (/^\d+$/.test(text)) return (row) => Number(row[text - 1]);
  const sum = /^\((?:\$(\d+))?(?:\+?(-?[\d.]+))?\)$/.exec(text);
  if (!sum) throw new Error(`no column: ${text}`);
  return (row) => (sum[1] ? Number(row[sum[1] - 1]) : 0) + Number(sum[2] ?? 0);
}

function readCurve(text) {
  const range = readRange(text);
  const rest = range ? text.slice(text.indexOf("]") + 1).trim() : text;
  const word = (pattern) => pattern.exec(rest)?.[1];
  const curve = {
    range,
    style: word(/ with (\w+)/),
    colour: word(/(?:linecolor|fillcolor) rgb '([^']*)'/) ?? "#0072B2",
    width: Number(word(/linewidth ([\d.]+)/) ?? 1),
    dash: ["solid", "dash", "dot"][Number(word(/dashtype (\d)/) ?? 1) - 1] ?? "dashdot",
    title: quoted(/ title ('.*)/.exec(rest)?.[1] ?? "") ?? "",
  };
  if (!curve.style) throw new Error(`no style: ${text}`);
  if (!rest.startsWith("'")) return {...curve, level: Number(rest.split(" ")[0])};
  const columns = word(/ using (\S+)/)?.split(":").map(readColumn);
  if (!columns) throw new Error(`no columns: ${text}`);
  return {...curve, index: Number(word(/ index (\d+)/) ?? 0), columns};
}

function readScript(script) {
  const plot = {curves: [], lines: [], bands: []};
  for (const line of script.replaceAll(/\\\n\s*/g, "").split("\n")) {
    const label = /^set ([xy])label ('.*)/.exec(line);
    const range = /^set ([xy])range (\[.*\])/.exec(line);
    const arrow = /^set arrow \d+ from first ([-\d.e+]+), graph 0 to first/.exec(line);
    const band = /^set object \d+ rectangle from first ([-\d.e+]+), graph 0 to first ([-\d.e+]+),/.exec(line);
    if (label) plot[`${label[1]}label`] = quoted(label[2]);
    if (range) plot[`${range[1]}range`] = readRange(range[2]);
    if (arrow) plot.lines.push(Number(arrow[1]));
    if (band) plot.bands.push([Number(band[1]), Number(band[2])]);
    const log = /^set logscale ([xy]+)/.exec(line);
    if (log) plot.log = log[1];
    if (line.startsWith("plot ")) plot.curves = splitCurves(line.slice(5)).map(readCurve);
  }
  if (plot.curves.length === 0) throw new Error("no curves");
  return plot;
}

/** The words in quotation marks behind the figures of a row. */
const wordsOf = (row) => /"(.*)"$/.exec(row.join(" "))?.[1] ?? "";

/** Blocks of rows: two empty lines divide them. */
function readData(text) {
  return text.split(/\n\n\n/).map((block) =>
    block.split("\n").filter((line) => line !== "" && !line.startsWith("#")).map((line) => line.split(/\s+/)));
}

// ---- Plots

/** Plotly takes tags in texts; ours have none. */
const plain = (text) => text.replaceAll("&", "&amp;").replaceAll("<", "&lt;");

function lineTrace(curve, x, y, mode) {
  return {x, y, mode, name: plain(curve.title), type: "scatter",
    line: {color: curve.colour, width: curve.width, dash: curve.dash}, marker: {color: curve.colour, size: 5}};
}

/** Two traces: an invisible lower edge, and the upper one that is filled down to it and tells the height between them. */
function bandTraces(curve, x, low, high) {
  const edge = {x, y: low, mode: "lines", line: {width: 0}, hoverinfo: "skip", showlegend: false, type: "scatter"};
  const height = high.map((value, i) => value - low[i]);
  return [edge, {...edge, y: high, hoverinfo: "all", showlegend: true, fill: "tonexty", fillcolor: curve.colour, customdata: height,
    line: {width: 0, color: curve.colour}, name: plain(curve.title), hovertemplate: "%{customdata:.6~g}"}];
}

function tracesOf(curve, blocks, xrange) {
  if (curve.level !== undefined) {
    if (Number.isNaN(curve.level)) return [];  // it is there for the key alone
    const ends = curve.range ?? xrange;
    return [{...lineTrace(curve, ends, [curve.level, curve.level], "lines"), hoverinfo: "skip"}];
  }
  const rows = blocks[curve.index] ?? [];
  const [x, low, high] = curve.columns.map((column) => rows.map(column));
  const text = rows.map(wordsOf);
  if (curve.style === "filledcurves") return bandTraces(curve, x, low, high);
  const modes = {lines: "lines", points: "markers", linespoints: "lines+markers"};
  if (!modes[curve.style]) throw new Error(`no style: ${curve.style}`);
  const trace = lineTrace(curve, x, low, modes[curve.style]);
  if (text.every((words) => words === "")) return [trace];
  return [{...trace, text: text.map(plain), hovertemplate: "%{text}<br>%{y:.4~g} at %{x:.4~g}<extra></extra>"}];
}

function axisOf(label, range, log) {
  const axis = {title: {text: plain(label ?? "")}, zeroline: false, type: log ? "log" : "linear", exponentformat: "none", automargin: true};
  const ends = (range ?? []).map((end) => (log && end !== null ? Math.log10(end) : end));
  if (ends.some((end) => end !== null)) Object.assign(axis, {range: ends, autorange: ends.includes(null) ? (ends[0] === null ? "min" : "max") : false});
  return axis;
}

function shapesOf(plot) {
  const upright = {yref: "paper", y0: 0, y1: 1, layer: "below"};
  return [
    ...plot.bands.map(([x0, x1]) => ({...upright, type: "rect", x0, x1, fillcolor: "#e8e8e8", line: {width: 0}})),
    ...plot.lines.map((x) => ({...upright, type: "line", x0: x, x1: x, line: {color: "#D55E00", width: 1.5, dash: "dash"}})),
  ];
}

function layoutOf(plot) {
  return {
    xaxis: axisOf(plot.xlabel, plot.xrange, plot.log?.includes("x")), yaxis: axisOf(plot.ylabel, plot.yrange, plot.log?.includes("y")),
    hovermode: "x unified", shapes: shapesOf(plot), margin: {t: 20, r: 10, b: 50, l: 70}, paper_bgcolor: "#fff", plot_bgcolor: "#fff",
    legend: {traceorder: "normal", ...(innerWidth < 700 ? {orientation: "h", y: -0.35} : {})}, font: {family: "system-ui, Helvetica, Arial, sans-serif", size: 13}, dragmode: "zoom",
  };
}

const CONFIG = {responsive: true, displaylogo: false, doubleClick: "reset", modeBarButtonsToRemove: ["select2d", "lasso2d"]};

/** The values of the traces that have one at exactly that place; what has words is told by them. */
function valuesAt(traces, x) {
  const found = traces.filter((trace) => trace.hoverinfo !== "skip").flatMap((trace) =>
    trace.x.flatMap((place, i) => (place !== x || trace.y[i] === null ? []
      : [`${trace.text?.[i] ?? trace.name} ${short((trace.customdata ?? trace.y)[i])}`])));
  return found.join("; ").replaceAll("&lt;", "<").replaceAll("&amp;", "&");
}

/** A slider over the places of a plot, for the keyboard: it tells all values at each. `words` adds what else is known there. */
function addReader(graph, traces, label, words = () => "") {
  const places = [...new Set(traces.filter((trace) => trace.hoverinfo !== "skip").flatMap((trace) => trace.x))].sort((a, b) => a - b);
  if (places.length < 2) return;
  const slider = make("input", {type: "range", min: 0, max: places.length - 1, value: 0, "aria-label": `Place on the axis: ${label}`});
  const output = make("p", {class: "readout", role: "status"}, "Point at the plot or move the slider to read values.");
  const still = graph.layout.shapes ?? [];
  const tell = (x, move) => {
    const more = words(x);
    output.textContent = `At ${short(x)}: ${valuesAt(traces, x)}${more === "" ? "" : `. ${more}`}`;
    slider.setAttribute("aria-valuetext", output.textContent);
    const line = {type: "line", yref: "paper", x0: x, x1: x, y0: 0, y1: 1, line: {color: "#444", width: 1}};
    if (move) Plotly.relayout(graph, {shapes: [...still, line]});
  };
  slider.addEventListener("input", () => tell(places[slider.value], true));
  graph.on("plotly_hover", (event) => {
    const x = event.points[0].x;
    slider.value = Math.max(0, places.indexOf(x));
    tell(x, false);
  });
  graph.after(make("div", {class: "slider tools"}, slider), output);
}

/** Where a logarithmic axis of these exponents of ten is labelled: at three places at least, however short it is. */
function logTicks([low, high]) {
  const powers = Array.from({length: Math.ceil(high) - Math.floor(low) + 1}, (_, i) => Math.floor(low) + i);
  const every = Math.max(1, Math.ceil((high - low) / 8));
  for (const leads of [[1], [1, 2, 5], [1, 2, 3, 4, 5, 6, 7, 8, 9]]) {
    const ticks = powers.filter((power) => power % every === 0).flatMap((power) => leads.map((lead) => Number(`${lead}e${power}`)));
    const seen = ticks.filter((tick) => Math.log10(tick) >= low - 1e-9 && Math.log10(tick) <= high + 1e-9);
    if (seen.length >= 3) return seen;
  }
  const step = 10 ** Math.floor(Math.log10((10 ** high - 10 ** low) / 3));
  const size = [5, 2, 1].map((lead) => lead * step).find((one) => (10 ** high - 10 ** low) / one >= 4) ?? step / 2;
  return Array.from({length: 12}, (_, i) => (Math.ceil(10 ** low / size) + i) * size).filter((tick) => tick <= 10 ** high);
}

/** Labels the logarithmic axes anew when the range changes. */
async function labelLogAxes(graph) {
  const changes = {};
  for (const name of ["xaxis", "yaxis"].filter((one) => graph.layout[one].type === "log")) {
    const ticks = logTicks(graph.layout[name].range);
    if (String(graph.layout[name].tickvals) === String(ticks)) continue;
    Object.assign(changes, {[`${name}.tickvals`]: ticks, [`${name}.ticktext`]: ticks.map((tick) => String(Number(tick.toPrecision(6))))});
  }
  if (Object.keys(changes).length > 0) await Plotly.relayout(graph, changes);
}

async function drawInto(graph, traces, layout, label, words) {
  await Plotly.newPlot(graph, traces, layout, CONFIG);
  await labelLogAxes(graph);
  graph.on("plotly_relayout", () => labelLogAxes(graph));
  addReader(graph, traces, label, words);
}

/** Draws once the place comes near to what is seen, so that a page with many plots opens at once. */
function whenNear(element, draw) {
  const observer = new IntersectionObserver((entries) => {
    if (!entries.some((entry) => entry.isIntersecting)) return;
    observer.disconnect();
    draw().catch((error) => console.warn(`noisemark: this plot stays a picture: ${error.message}`));
  }, {rootMargin: "600px"});
  observer.observe(element);
}

const sum = (numbers) => numbers.reduce((a, b) => a + b, 0);

/** What a step did at each place of the plot of memory: of a profile everywhere, of a run at its peak. */
function instants(part) {
  const words = new Map();
  const place = (time_s) => Number((1000 * time_s).toPrecision(6));
  const ofRun = data.result && part === "";
  for (const point of (ofRun ? null : data.timeline)?.points ?? []) {
    const parts = [point.operator, point.layer && `layer ${point.layer}`, point.phase];
    words.set(place(point.time_s), parts.filter(Boolean).join(", "));
  }
  const memory = ofRun ? data.result.memory : null;
  const peak = memory?.timeline.find((point) => sum(point.by_category) === memory.peak_bytes);
  if (peak) words.set(place(peak.time_s), `the peak, in ${memory.peak_phase}: ${memory.peak_operator}`);
  return (x) => words.get(x) ?? "";
}

async function replacePicture(picture, source) {
  const plot = readScript(source.script);
  const blocks = readData(source.data);
  const traces = plot.curves.flatMap((curve) => tracesOf(curve, blocks, plot.xrange ?? [0, 1]));
  const graph = make("div", {class: "plot", role: "img", "aria-label": picture.alt});
  picture.after(graph);
  picture.classList.add("replaced");
  try {
    const words = source.script.includes("'memory.svg'") ? instants(source.part) : undefined;
    const layout = layoutOf(plot);
    if (traces.some((trace) => trace.text)) layout.hovermode = "closest";
    await drawInto(graph, traces, layout, picture.alt, words);
  } catch (error) {
    graph.remove();
    picture.classList.remove("replaced");
    throw error;
  }
  picture.dataset.drawn = "yes";
}

/** Each picture gets a frame of the plot's height, so that nothing moves under the reader's hand when it is drawn. */
function enhancePictures() {
  for (const picture of document.querySelectorAll("img.plot")) {
    const source = data.plots[picture.dataset.plot];
    if (!source) continue;
    const frame = make("span", {class: "frame"});
    picture.replaceWith(frame);
    frame.append(picture);
    whenNear(frame, () => replacePicture(picture, source));
  }
}

// ---- The curves of a prediction, and a slider for its batch

const COLOURS = ["#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00"];

const FIGURES = {
  time: {label: "time of a step (ms)", of: (point) => 1000 * point.step_s},
  memory: {label: "peak (MiB)", of: (point) => point.peak_bytes / MIB},
};

/** What was not measured is dashed, and the interval is a band. */
function predictionTraces(variant, figure, colour) {
  const curve = {title: `${variant.name}, predicted`, colour, width: 2, dash: "solid"};
  const line = (points, words, dash) => lineTrace({...curve, title: `${variant.name}, ${words}`, dash},
    points.map((point) => point.batch), points.map(figure.of), "lines");
  const marks = (points, words, symbol) => ({...lineTrace({...curve, title: `${variant.name}, ${words}`},
    points.map((point) => point.batch), points.map(figure.of), "markers"), marker: {color: colour, size: 9, symbol}});
  const traces = [
    line(variant.curve.map((point) => (point.within ? point : {...point, step_s: NaN, peak_bytes: NaN})), "predicted", "solid"),
    line(variant.curve.map((point) => (point.within ? {...point, step_s: NaN, peak_bytes: NaN} : point)), "extrapolated", "dash"),
    marks(variant.measured, "measured", "circle"),
  ];
  if (variant.held_out.length > 0) traces.push(marks(variant.held_out, "held out", "circle-open"));
  if (figure !== FIGURES.time) return traces;
  const x = variant.curve.map((point) => point.batch);
  const band = bandTraces({...curve, title: `${variant.name}, interval`, colour: `${colour}33`}, x,
    variant.curve.map((point) => 1000 * point.low_s), variant.curve.map((point) => 1000 * point.high_s));
  return [...band.map((trace) => ({...trace, hoverinfo: "skip"})), ...traces];
}

function predictionWords(variant, i) {
  const point = variant.curve[Math.min(i, variant.curve.length - 1)];
  const how = point.within ? "predicted between measured sizes" : "extrapolated beyond what was measured";
  return `${variant.name}: ${short(1000 * point.step_s)} ms (${short(1000 * point.low_s)} to ${short(1000 * point.high_s)}), ` +
    `${short(point.batch / point.step_s)} images/s, peak ${short(point.peak_bytes / MIB)} MiB, ${how}.`;
}

function moveTo(graphs, variants, i, output) {
  const batch = variants[0].curve[i].batch;
  output.replaceChildren(make("strong", {}, `Batch ${batch}`), ...variants.map((variant) => make("div", {}, predictionWords(variant, i))));
  for (const {graph, figure} of graphs) {
    const marks = variants.flatMap((variant, k) => {
      const y = figure.of(variant.curve[Math.min(i, variant.curve.length - 1)]);
      return [{type: "line", x0: 0, x1: batch, y0: y, y1: y, line: {color: COLOURS[k % COLOURS.length], width: 1, dash: "dot"}}];
    });
    Plotly.relayout(graph, {shapes: [{type: "line", yref: "paper", x0: batch, x1: batch, y0: 0, y1: 1, line: {color: "#444", width: 1}}, ...marks]});
  }
}

async function drawPrediction() {
  const {variants} = data.prediction;
  const last = variants[0].curve.length - 1;
  const slider = make("input", {type: "range", min: 0, max: last, value: Math.floor(last / 2), id: "batch"});
  const output = make("div", {class: "readout", role: "status"});
  const section = make("section", {id: "batch-slider"}, make("h2", {}, "Move the batch"),
    make("div", {class: "slider"}, make("label", {for: "batch"}, "Batch"), slider), output);
  (document.querySelector("[data-part=predict] > summary") ?? document.querySelector("main nav") ?? document.querySelector("main header")).after(section);
  const graphs = [];
  for (const figure of Object.values(FIGURES)) {
    const graph = make("div", {class: "plot", role: "img", "aria-label": `${figure.label} by batch`});
    section.append(graph);
    const traces = variants.flatMap((variant, k) => predictionTraces(variant, figure, COLOURS[k % COLOURS.length]));
    await Plotly.newPlot(graph, traces, layoutOf({xlabel: "batch", ylabel: figure.label, yrange: [0, null], lines: [], bands: []}), CONFIG);
    graphs.push({graph, figure});
  }
  const move = () => {
    moveTo(graphs, variants, Number(slider.value), output);
    slider.setAttribute("aria-valuetext", output.textContent);
  };
  slider.addEventListener("input", move);
  move();
}

/** A folded plot has no width, so it waits until its part is open. */
async function drawPredictionWhenSeen() {
  const part = document.querySelector("[data-part=predict]");
  if (!part || part.open) return drawPrediction();
  const draw = () => {
    if (!part.open) return;
    part.removeEventListener("toggle", draw);
    drawPrediction().catch((error) => console.error(`noisemark: ${error.message}`));
  };
  part.addEventListener("toggle", draw);
}

// ---- The curves of two results over each other

const CURVES = {step_s: {label: "step time (ms)", scale: 1000}, loss: {label: "training loss", scale: 1}};

async function drawPair(place, sides) {
  for (const [key, {label, scale}] of Object.entries(CURVES)) {
    const traces = sides.filter((side) => side[key]?.length > 1).map((side, k) => lineTrace(
      {title: `${["base", "new"][k]}: ${side.name}`, colour: COLOURS[k], width: 1.5, dash: "solid"},
      side[key].map((_, i) => i), side[key].map((value) => (value === null ? null : scale * value)), "lines"));
    if (traces.length < 2) continue;
    const graph = make("div", {class: "plot", role: "img", "aria-label": `${label} of both results`});
    place.append(graph);
    await drawInto(graph, traces, layoutOf({xlabel: "optimizer step", ylabel: label, lines: [], bands: []}), label);
  }
}

function enhancePairs() {
  for (const place of document.querySelectorAll("[data-pair]")) {
    place.className = "frame pair";
    whenNear(place, () => drawPair(place, data.pairs[place.dataset.pair]));
  }
}

// ---- The library lies in the page, compressed

async function loadLibrary() {
  const holder = document.getElementById("plotly");
  if (!holder || !("DecompressionStream" in window)) return false;
  const bytes = Uint8Array.from(atob(holder.textContent), (letter) => letter.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  const source = new Blob([await new Response(stream).arrayBuffer()], {type: "text/javascript"});
  const script = make("script", {src: URL.createObjectURL(source)});
  await new Promise((loaded, failed) => {
    script.addEventListener("load", loaded);
    script.addEventListener("error", () => failed(new Error("the plotting library does not load")));
    document.head.append(script);
  });
  return true;
}

async function enhancePlots() {
  const wanted = data.plots.length > 0 || data.prediction || data.pairs?.length > 0;
  if (!wanted || !(await loadLibrary())) return;
  enhancePictures();
  enhancePairs();
  if (data.prediction) await drawPredictionWhenSeen();
}

enhanceTables();
enhanceFolds();
enhancePlots()
  .then(() => { document.documentElement.dataset.ready = "yes"; })
  .catch((error) => console.error(`noisemark: ${error.message}`));
