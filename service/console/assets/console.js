// Fetches the data every two seconds and renders it. Data is always set as text, never as markup.
"use strict";

const PERIOD_MILLISECONDS = 2000;
const SIGNS = { well: "✓", warning: "!", wrong: "✕" };
const WORDS = { warning: "Warning: ", wrong: "Error: " };
const at = id => document.getElementById(id);
const whole = new Intl.NumberFormat("en");
let lastAnswer = null;

function element(name, text, attributes = {}) {
  const made = document.createElement(name);
  if (text !== undefined) made.textContent = text;
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  return made;
}

const few = value => value === 0 ? "0" : value < 10 ? value.toFixed(1) : whole.format(Math.round(value));
const counted = value => value === null ? "–" : whole.format(value);

function span(seconds) {
  if (seconds === null) return "–";
  if (seconds < 1) return `${Math.max(1, Math.round(seconds * 1000))} ms`;
  for (const [unit, size] of [["d", 86400], ["h", 3600], ["min", 60]]) {
    if (seconds >= 2 * size) return `${Math.floor(seconds / size)} ${unit}`;
  }
  return `${Math.round(seconds)} s`;
}

const ago = (now, moment) => moment ? `${span(Math.max(1, now - moment))} ago` : "–";
const clock = seconds => new Date(seconds * 1000).toISOString().slice(0, 19).replace("T", " ");

// Remedies contain code in backticks.
function sentence(text) {
  return text.split("`").map((part, index) => index % 2 ? element("code", part) : document.createTextNode(part));
}

function show(level, headline, notices) {
  at("verdict").className = level;
  // Change the live region only if its text changes, or screen readers would repeat it.
  if (at("headline").textContent !== headline) at("headline").textContent = headline;
  at("sign").textContent = SIGNS[level];
  document.title = `${level === "well" ? "" : `${SIGNS[level]} `}${headline} – Brokerage console`;
  const items = notices.map(notice => {
    const item = element("li", undefined, { class: notice.level });
    item.append(element("strong", WORDS[notice.level]), ...sentence(`${notice.text} ${notice.remedy}`));
    return item;
  });
  if (at("notices").textContent !== items.map(item => item.textContent).join("")) at("notices").replaceChildren(...items);
}

function tile(name, value, note) {
  const made = element("div"), description = element("dd", value);
  if (note) description.append(" ", element("small", note));
  made.append(element("dt", name), description);
  return made;
}

function tiles(data) {
  const { minute, engine, loop_late } = data.figures;
  const nodes = Object.values(data.nodes).reduce((sum, count) => sum + count, 0);
  const waiting = data.limits.reduce((sum, limit) => sum + limit.waiting, 0);
  const running = data.limits.reduce((sum, limit) => sum + limit.running, 0);
  const places = data.limits.reduce((sum, limit) => sum + limit.places, 0);
  at("tiles").replaceChildren(
    tile("Requests", few(minute.per_second), "per second"),
    tile("Failed", counted(minute.failed), "last minute"),
    tile("Rate limited", counted(minute.refused), "last minute"),
    tile("Records sent", few(minute.rows_per_second), "per second"),
    tile("Response time", span(minute.median), "median"),
    tile("Response time", span(minute.slowest), "p99"),
    tile("Concurrency", `${whole.format(running)} of ${whole.format(places)}`, `${whole.format(waiting)} queued`),
    tile("Elasticsearch nodes", `${data.nodes.well} of ${nodes}`, "healthy"),
    tile("Elasticsearch", span(engine.slowest), "p99"),
    tile("Workers", `${data.workers - data.away.length} of ${data.workers}`, `${span(loop_late)} loop lag`),
  );
}

// A cell is a text, or a text with a note below it; `numbers` are the columns to align right.
function fill(body, rows, numbers, empty) {
  const columns = at(body).closest("table").tHead.rows[0].cells.length;
  const lines = rows.map(cells => {
    const line = element("tr");
    cells.forEach((cell, index) => {
      const [text, note, style] = [cell].flat();
      const made = element(index ? "td" : "th", text, index ? {} : { scope: "row" });
      if (numbers.includes(index)) made.classList.add("number");
      if (style) made.classList.add(style);
      if (note) made.append(element("small", note));
      line.append(made);
    });
    return line;
  });
  if (!lines.length) {
    lines.push(element("tr"));
    lines[0].append(element("td", empty, { colspan: columns, class: "quiet" }));
  }
  at(body).replaceChildren(...lines);
}

const ran = last => last ? [span(last.lag), `${last.verb}${last.dead ? `, ${counted(last.dead)} bad records` : ""}`] : "–";
const building = build => !build ? "–" : build.refusal ? [build.candidate, "refused", "trouble"]
  : [build.candidate, `${build.phase}, line ${counted(build.line)}`];

function tables(data) {
  const now = data.at;
  fill("resources", data.resources.map(held => [
    held.resource, counted(held.records), [ago(now, held.mark), held.mark && `${clock(held.mark)} UTC`], ran(held.last), counted(held.sequence),
    held.generations.length ? `${held.alias} → ${held.generations.join(", ")}` : "missing", held.replaced ?? "–", building(held.build),
  ]), [1, 4], "");
  fill("consumers", data.consumers.map(({ seen, name, trouble, behind }) => [
    [name, seen.key_id], [seen.resource, seen.company],
    trouble ? [`! ${trouble}`, "", "trouble"] : seen.is_final ? "complete" : "walking",
    ago(now, seen.at), behind === null ? "–" : behind ? span(behind) : "up to date", seen.last ?? seen.after ?? "–",
    seen.updated_since === null ? "–" : [clock(seen.updated_since), "UTC"],
  ]), [], "No feed walks since the workers started.");
  fill("subscriptions", data.subscriptions.map(({ name, key_id, url, state, behind, number, delivered, answer, answered }) => [
    [name, key_id], url, state === "active" || state === "paused" ? state : [`! ${state}`, "", "trouble"],
    behind === null ? "–" : behind ? span(behind) : "up to date", delivered ? ago(now, delivered) : "never",
    counted(number), answered ? [answer, ago(now, answered)] : "–",
  ]), [5], "No subscriptions.");
  fill("keys", data.keys.map(({ seen, name, tier }) => [
    [name, seen.key_id], tier || "–", [ago(now, seen.at), seen.route], String(seen.status),
    seen.refused ? [`${counted(seen.refused)} times`, ago(now, seen.refused_at), "trouble"] : "never",
  ]), [], "No keys used since the workers started.");
  fill("routes", data.figures.routes.map(route => [
    route.name, counted(route.requests), counted(route.failed), counted(route.refused), span(route.median),
    span(route.slowest), few(route.rows_per_second),
  ]), [1, 2, 3, 4, 5, 6], "No requests in the last ten minutes.");
}

function draw(data) {
  show(data.level, data.headline, data.notices);
  tiles(data);
  charts(data.figures.charts, data.at);
  tables(data);
  at("since").textContent = `${clock(data.at).slice(11)} UTC`;
  at("version").textContent = `· Brokerage ${data.version}`;
}

async function look() {
  try {
    const answer = await fetch("/console/data.json", { cache: "no-store", signal: AbortSignal.timeout(10000) });
    if (!answer.ok) throw new Error(`status ${answer.status}`);
    draw(await answer.json());
    lastAnswer = new Date();
  } catch (failure) {
    const since = lastAnswer ? ` The data below is from ${lastAnswer.toISOString().slice(11, 19)} UTC.` : "";
    show("wrong", "The service is not responding.", [{ level: "wrong", text: `Cannot load data: ${failure.message}.${since}`, remedy: "" }]);
  }
  setTimeout(look, PERIOD_MILLISECONDS);
}

look();
