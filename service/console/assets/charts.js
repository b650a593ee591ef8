// Charts of the last ten minutes with axes, and values under the pointer. A chart is created once and then gets new data.
"use strict";

const CHART_HEIGHT = 130;
const FONT = "11px system-ui, -apple-system, \"Segoe UI\", Roboto, \"Liberation Sans\", Arial, sans-serif";
const shownCharts = new Map();

const paint = name => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
const hour = (seconds, digits) => new Date(seconds * 1000).toISOString().slice(11, 11 + digits);

// A value between two gaps has no line: it needs a point.
const lonely = (plot, series) => {
  const values = plot.data[series], found = [];
  values.forEach((value, at) => value != null && values[at - 1] == null && values[at + 1] == null && found.push(at));
  return found;
};

function options(chart) {
  const axis = { stroke: paint("--soft"), font: FONT, ticks: { show: false }, grid: { stroke: paint("--line"), width: 1 } };
  const line = { stroke: paint("--accent"), fill: `${paint("--accent")}28`, width: 1.6, points: { size: 3, filter: lonely } };
  const bar = { fill: paint("--danger"), stroke: paint("--danger"), width: 0, points: { show: false } };
  return {
    width: chart.place.clientWidth || 300, height: CHART_HEIGHT, padding: [8, 8, 0, 0],
    tzDate: seconds => uPlot.tzDate(new Date(seconds * 1000), "UTC"),
    legend: { show: false },
    cursor: { drag: { x: false, y: false }, y: false, sync: { key: "console" } },
    scales: { y: { range: (_, __, highest) => [0, highest || 1] } },
    axes: [
      { ...axis, size: 30, gap: 9, space: 70, values: (_, times) => times.map(time => hour(time, 5)) },
      { ...axis, size: 54, gap: 4, space: 32, values: (_, values) => values.map(chart.unit) },
    ],
    series: [{}, line, ...chart.bars ? [{ ...bar, paths: uPlot.paths.bars({ size: [0.8, 6] }) }] : []],
    hooks: { setCursor: [plot => tell(chart, plot.cursor.idx)] },
  };
}

// Next to the title: the value under the pointer, otherwise the highest.
function tell(chart, at) {
  const [times, values, bars] = chart.data, pointed = at == null ? null : times[at];
  const part = value => value == null ? "–" : chart.unit(value);
  chart.said.textContent = pointed == null ? `max ${part(chart.highest)}`
    : `${hour(pointed, 8)} UTC: ${part(values[at])}${bars ? `, ${chart.bars} ${part(bars[at])}` : ""}`;
}

function started(title, unit, bars) {
  const figure = element("figure"), caption = element("figcaption"), place = element("div", undefined, { class: "plot", role: "img" });
  const chart = { title, unit, bars, place, said: element("span", "", { class: "quiet" }), data: [[], []], highest: 0 };
  caption.append(element("strong", title), chart.said);
  figure.append(caption, place);
  at("charts").append(figure);
  new ResizeObserver(() => chart.plot?.setSize({ width: place.clientWidth, height: CHART_HEIGHT })).observe(place);
  return chart;
}

// `unit` formats a value; `bars` names the second series, drawn as bars on the same scale.
function chart(title, unit, times, values, bars, barValues) {
  if (!shownCharts.has(title)) shownCharts.set(title, started(title, unit, bars));
  const shown = shownCharts.get(title);
  shown.data = [times, values, ...bars ? [barValues] : []];
  shown.highest = Math.max(...values.map(value => value ?? 0), ...barValues ?? [], 0);
  const label = `${title}, last ten minutes: maximum ${unit(shown.highest)}, now ${unit(values.at(-1) ?? 0)}.`;
  if (shown.place.getAttribute("aria-label") !== label) shown.place.setAttribute("aria-label", label);
  if (shown.plot) shown.plot.setData(shown.data);
  else shown.plot = new uPlot(options(shown), shown.data, shown.place);
  tell(shown, shown.plot.cursor.idx);
}

function charts({ step_seconds, requests, failed, slowest, rows }, now) {
  const aSecond = value => `${few(value)}/s`, last = Math.floor(now / step_seconds) * step_seconds;
  const times = requests.map((_, index) => last - (requests.length - index) * step_seconds);
  chart("Requests", aSecond, times, requests, "failed", failed);
  chart("Response time, p99", value => value ? span(value) : "0", times, slowest);
  chart("Records sent", aSecond, times, rows);
}

// A canvas does not follow the colours of the page.
window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
  for (const shown of shownCharts.values()) {
    shown.plot?.destroy();
    shown.plot = new uPlot(options(shown), shown.data, shown.place);
  }
});
