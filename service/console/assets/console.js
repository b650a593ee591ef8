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
  const made = element("div", undefined, value === "–" ? { class: "idle" } : {}), description = element("dd", value);
  if (note) description.append(" ", element("small", note));
  made.append(element("dt", name), description);
  return made;
}

function group(name, ...tiles) {
  const made = element("section"), list = element("dl");
  list.append(...tiles);
  made.append(element("h3", name), list);
  return made;
}

function groups(data) {
  const { minute, engine, loop_late } = data.figures;
  const nodes = Object.values(data.nodes).reduce((sum, count) => sum + count, 0);
  const waiting = data.limits.reduce((sum, limit) => sum + limit.waiting, 0);
  const slots = kind => {
    const limit = data.limits.find(limit => limit.kind === kind);
    return limit ? `${whole.format(limit.running)} of ${whole.format(limit.places)}` : "–";
  };
  at("groups").replaceChildren(
    group("Traffic", tile("Requests", few(minute.per_second), "per second"), tile("Records", few(minute.rows_per_second), "per second"),
      tile("Failed", counted(minute.failed), "last minute"), tile("Rate limited", counted(minute.refused), "last minute")),
    group("Speed", tile("Median", span(minute.median)), tile("p99", span(minute.slowest)), tile("Elasticsearch p99", span(engine.slowest)),
      tile("Event loop lag", span(loop_late))),
    group("Capacity", tile("Pages", slots("page"), "slots"), tile("Snapshots", slots("snapshot"), "slots"), tile("Downloads", slots("download"), "slots"),
      tile("Queued", whole.format(waiting))),
    group("Cluster", tile("Elasticsearch nodes", `${data.nodes.well} of ${nodes}`, "healthy"), tile("Searches", whole.format(data.running), "in flight"),
      tile("Workers", `${data.workers - data.away.length} of ${data.workers}`)),
  );
}

// A cell is a text, or a text with a note below it, a style and a tooltip; `numbers` are the columns to align right.
function fill(body, rows, numbers, empty) {
  const columns = [...at(body).closest("table").tHead.rows[0].cells].map(cell => cell.textContent);
  const lines = rows.map(cells => {
    const line = element("tr");
    cells.forEach((cell, index) => {
      const [text, note, style, tip] = [cell].flat();
      const made = element(index ? "td" : "th", text, index ? { "data-label": columns[index] } : { scope: "row" });
      if (tip) made.title = tip;
      if (numbers.includes(index)) made.classList.add("number");
      if (style) made.classList.add(style);
      if (note) made.append(element("small", note));
      line.append(made);
    });
    return line;
  });
  if (!lines.length) {
    lines.push(element("tr"));
    lines[0].append(element("td", empty, { colspan: columns.length, class: "quiet" }));
  }
  at(body).replaceChildren(...lines);
}

const ran = last => last ? [span(last.lag), last.dead ? `${counted(last.dead)} bad records` : "", "", `published by ${last.verb}`] : "–";
const building = build => !build ? "–" : build.refusal ? [build.candidate, "refused", "trouble"]
  : [build.candidate, `${build.phase}, line ${counted(build.line)}`];
// Such as `v0002` of `listings-v0002`.
const versioned = index => index ? [index.slice(index.lastIndexOf("-") + 1), "", "", index] : "–";

function state(seen, trouble) {
  if (trouble) return [`! ${trouble}`, "", "trouble"];
  return seen.is_final ? "complete" : "reading";
}

function delay(behind) {
  if (behind === null) return "–";
  return behind ? span(behind) : "up to date";
}

function tables(data) {
  const now = data.at;
  fill("resources", data.resources.map(held => [
    held.resource, counted(held.records), [ago(now, held.mark), "", "", held.mark && `${clock(held.mark)} UTC`], ran(held.last), counted(held.sequence),
    held.generations.length ? versioned(held.generations[0]) : ["missing", "", "trouble"], versioned(held.replaced), building(held.build),
  ]), [1, 4], "");
  fill("consumers", data.consumers.map(({ seen, name, trouble, behind }) => [
    [name, seen.key_id], seen.method, [seen.resource, seen.company || "all companies of the key"], state(seen, trouble), delay(behind),
    ago(now, seen.at), [seen.last ?? seen.after ?? "–", seen.updated_since === null ? "" : `updated_since ${clock(seen.updated_since)} UTC`],
  ]), [], "No consumer has read since the workers started.");
  fill("subscriptions", data.subscriptions.map(({ name, key_id, url, state, behind, number, delivered, answer, answered }) => [
    [name, key_id], url, state === "active" || state === "paused" ? state : [`! ${state}`, "", "trouble"],
    delay(behind), delivered ? ago(now, delivered) : "never",
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

// Shown below the headline if there are no notices.
function summary(data) {
  const listings = data.resources.find(({ resource }) => resource === "listings"), count = data.consumers.length;
  const inSync = data.consumers.filter(({ trouble, behind }) => !trouble && behind === 0).length;
  return [
    listings?.records ? `${counted(listings.records)} listings, changed ${ago(data.at, listings.mark)}` : "",
    count ? `${inSync} of ${count} consumers up to date` : "",
  ].filter(Boolean).join(" · ");
}

function draw(data) {
  show(data.level, data.headline, data.notices);
  at("summary").textContent = summary(data);
  groups(data);
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
