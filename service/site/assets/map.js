// Loads the listings of a company as GeoJSON and shows them on a plane and, accessibly, as a list. Data is always set as text.
// Requests go to this service only, and nothing is stored.

const { Plane, project } = await import(document.getElementById("plane").href);

const GEOJSON = "application/geo+json";
const PAGE = 500, MOST = 20_000, LISTED = 100;
const FEEDS = {
  market: ["/v1/listings", { market_status: "on-market", updated_since: "1" }],
  all: ["/v1/listings", { market_status: "all", updated_since: "1" }],
  sold: ["/v1/sold_listings", { updated_since: "1" }],
};
// Statuses with their own colour; all others share one.
const TONES = { Active: "active", Pending: "pending", Contingent: "contingent", ComingSoon: "soon", Sold: "sold" };
const at = id => document.getElementById(id);
const whole = new Intl.NumberFormat("en");
const narrow = matchMedia("(max-width: 56rem)");
const dollars = new Intl.NumberFormat("en", { style: "currency", currency: "USD", maximumFractionDigits: 0 });
const counted = (count, one) => `${whole.format(count)} ${one}${count === 1 ? "" : "s"}`;

const exampleFeatures = new Map();
let companiesOf = "", points = [], listed = [], unplaced = 0, hidden = new Set(), chosen = null, reading = null;

function element(name, text, attributes = {}) {
  const made = document.createElement(name);
  if (text !== undefined) made.textContent = text;
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  return made;
}

const board = at("board");
const NAMES = { ground: "--ground", line: "--grid", border: "--border", ink: "--ink", soft: "--soft" };
for (const tone of [...Object.values(TONES), "other"]) NAMES[tone] = `--${tone}`;
function colours() {
  const style = getComputedStyle(board);
  return Object.fromEntries(Object.entries(NAMES).map(([name, property]) => [name, style.getPropertyValue(property).trim()]));
}
const plane = new Plane(at("plane-canvas"), { colours, moved: list, picked: point => choose(point) });

// Keep only what is displayed: a page of whole records is megabytes.
function pointOf({ id, geometry, properties: record }) {
  const isAddressShown = record.InternetAddressDisplayYN !== false;
  return {
    id, ...project(...geometry.coordinates), coordinates: geometry.coordinates,
    status: record.Status ?? "Other", tone: TONES[record.Status] ?? "other",
    price: record.SoldPrice ?? record.ListPrice, address: isAddressShown && record.Address || "Address not displayed",
    city: record.City, type: record.PropertyType, built: record.YearBuilt, sold: record.SoldDate,
    beds: record.BedroomsTotal, baths: record.BathroomsTotal, area: record.LivingArea,
  };
}

class Refusal extends Error {}

async function ask(url, headers, signal) {
  for (;;) {
    const answer = await fetch(url, { headers, signal, credentials: "omit", cache: "no-store" });
    if (answer.status !== 429) {
      const body = await answer.json();
      if (!answer.ok) throw new Refusal(body.detail);
      return body;
    }
    const seconds = Number(answer.headers.get("Retry-After")) || 1;
    say(`${counted(points.length, "listing")} so far. Rate limit reached: continuing in ${counted(seconds, "second")}.`);
    await new Promise((go, stop) => {
      signal.addEventListener("abort", () => stop(signal.reason), { once: true });
      setTimeout(go, seconds * 1000);
    });
  }
}

async function* walk(path, query, key, signal) {
  const url = new URL(path, location.origin);
  for (const [name, value] of Object.entries(query)) url.searchParams.set(name, value);
  url.searchParams.set("page_size", PAGE);
  showCommand(url);
  for (;;) {
    const page = await ask(url, { Accept: GEOJSON, "x-api-key": key }, signal);
    yield page.features;
    if (page.FinalPage) return;
    url.searchParams.set("last_platform_listing_id", page.features.at(-1).id);
  }
}

// Show the first request as a command, without the key.
function showCommand(url) {
  at("command").textContent = `curl --compressed -H 'Accept: ${GEOJSON}' -H "x-api-key: $KEY" \\\n  '${url}'`;
  at("request").hidden = false;
}

function say(text, isWrong = false) {
  at("said").textContent = text;
  at("said").classList.toggle("wrong", isWrong);
}

// The companies of the key, of which the first is chosen.
async function company(key, signal) {
  if (companiesOf !== key) {
    const companies = await ask("/v1/companies", { "x-api-key": key }, signal);
    if (!companies.length) throw new Refusal("This key reads no company.");
    at("company").replaceChildren(...companies.map(each => element("option", each.name ?? each.platform_company_id, { value: each.platform_company_id })));
    companiesOf = key;
  }
  return at("company").value;
}

async function offerCompanies() {
  const key = at("key").value.trim();
  if (!key || key === companiesOf) return;
  try {
    await company(key, new AbortController().signal);
  } catch (error) {
    say(error instanceof Refusal ? error.message : "Cannot reach the service.", true);
  }
}

// Borders under the listings; without them, the map is as useful.
async function borders() {
  const answer = await fetch(document.getElementById("map-script").dataset.borders);
  if (answer.ok) plane.border(await answer.json());
}

// Before a key is entered, the map shows generated listings, which need no request to the API.
async function example() {
  const answer = await fetch(document.getElementById("map-script").dataset.example);
  if (!answer.ok || reading) return;
  for (const feature of (await answer.json()).features) exampleFeatures.set(feature.id, feature);
  points = [...exampleFeatures.values()].map(pointOf);
  redraw();
  plane.fit();
  say(`Example: ${counted(points.length, "generated listing")}. Enter a key to see those of a company.`);
}

async function read() {
  reading?.abort();
  exampleFeatures.clear();
  const mine = reading = new AbortController(), key = at("key").value.trim();
  [points, unplaced, hidden] = [[], 0, new Set()];
  choose(null);
  redraw();
  list([]);
  busy(true);
  say("Loading …");
  try {
    const [path, query] = FEEDS[at("feed").value];
    const asked = { platform_company_id: await company(key, mine.signal), ...query };
    for await (const features of walk(path, asked, key, mine.signal)) {
      const placed = features.filter(({ geometry }) => geometry);
      const isFirst = !points.length;
      unplaced += features.length - placed.length;
      points = points.concat(placed.map(pointOf));
      redraw();
      if (isFirst) plane.fit();
      say(`${counted(points.length, "listing")} so far …`);
      if (points.length >= MOST) break;
    }
    plane.fit();
    say(summary(points.length >= MOST));
    if (points.length) (narrow.matches ? at("said") : at("asking").previousElementSibling).scrollIntoView();
  } catch (error) {
    if (reading !== mine) return;
    if (error.name === "AbortError") say(`Stopped. ${summary(false)}`);
    else say(error instanceof Refusal ? error.message : "Cannot reach the service.", true);
  } finally {
    if (reading === mine) busy(false);
  }
}

function summary(isCut) {
  const rest = [
    isCut ? `The map shows at most ${whole.format(MOST)}.` : "",
    unplaced ? `${whole.format(unplaced)} more have no coordinates.` : "",
  ];
  return [points.length || unplaced ? `${counted(points.length, "listing")} on the map.` : "No listings found.", ...rest].filter(Boolean).join(" ");
}

function busy(isBusy) {
  at("stop").hidden = !isBusy;
  board.setAttribute("aria-busy", isBusy);
}

function redraw() {
  at("empty").hidden = points.length > 0;
  legend();
  plane.show(points.filter(({ status }) => !hidden.has(status)));
}

// One toggle per status, with its count; pressed while its listings are shown.
function legend() {
  const counts = new Map();
  for (const { status, tone } of points) counts.set(status, { tone, count: (counts.get(status)?.count ?? 0) + 1 });
  const order = Object.keys(TONES), place = status => (order.indexOf(status) + 99) % 99;
  const sorted = [...counts].sort(([one], [other]) => place(one) - place(other) || one.localeCompare(other));
  const had = document.activeElement?.dataset?.status;
  at("legend").replaceChildren(...sorted.map(([status, { tone, count }]) => {
    const button = element("button", undefined, { type: "button", "aria-pressed": !hidden.has(status), "data-status": status });
    button.append(element("span", "", { class: `tone ${tone}`, "aria-hidden": "true" }), `${status} `, element("span", whole.format(count), { class: "count" }));
    button.addEventListener("click", () => {
      if (!hidden.delete(status)) hidden.add(status);
      if (chosen && hidden.has(chosen.status)) choose(null);
      redraw();
    });
    return button;
  }));
  if (had) at("legend").querySelector(`[data-status="${CSS.escape(had)}"]`)?.focus();
}

const rooms = ({ beds, baths, area }) => [
  beds == null ? "" : `${beds} bd`, baths == null ? "" : `${baths} ba`, area == null ? "" : `${whole.format(area)} sq ft`,
].filter(Boolean).join(" · ");
const priced = point => point.price == null ? "No price" : dollars.format(point.price);

// Listings in view as buttons: an accessible alternative to the map.
function list(seen) {
  const shown = [...seen].sort((one, other) => (other.price ?? 0) - (one.price ?? 0)).slice(0, LISTED);
  const rest = seen.length > shown.length ? `, the ${shown.length} most expensive are listed` : "";
  at("counted").textContent = points.length ? `${counted(seen.length, "listing")} in view${rest}` : "Listings in view appear here.";
  if (shown.length === listed.length && shown.every((point, place) => point === listed[place])) return;
  listed = shown;
  const had = document.activeElement?.dataset?.listing;
  at("listings").replaceChildren(...shown.map(item));
  if (had) at("listings").querySelector(`[data-listing="${CSS.escape(had)}"]`)?.focus({ preventScroll: true });
}

function item(point) {
  const button = element("button", undefined, { type: "button", "data-listing": point.id, ...(point === chosen ? { "aria-current": "true" } : {}) });
  const head = element("span", undefined, { class: "head" });
  head.append(element("b", priced(point)), element("span", point.status, { class: `status ${point.tone}` }));
  button.append(head, element("span", [point.address, point.city].filter(Boolean).join(", ")), element("small", rooms(point)));
  button.addEventListener("click", () => choose(point, true));
  for (const name of ["focus", "pointerenter"]) button.addEventListener(name, () => plane.hover(point));
  for (const name of ["blur", "pointerleave"]) button.addEventListener(name, () => plane.hover(null));
  const made = element("li");
  made.append(button);
  return made;
}

function choose(point, move = false) {
  const before = chosen;
  chosen = point;
  plane.choose(point, { move });
  for (const button of at("listings").querySelectorAll("button")) {
    if (button.dataset.listing === point?.id) button.setAttribute("aria-current", "true"); else button.removeAttribute("aria-current");
  }
  at("detail").hidden = !point;
  if (point) describe(point);
  else if (before && at("detail").contains(document.activeElement)) plane.canvas.focus();
  if (point && !move) at("listings").querySelector("[aria-current]")?.scrollIntoView({ block: "nearest" });
}

function describe(point) {
  at("detail-title").textContent = priced(point);
  at("detail-address").textContent = [point.address, point.city].filter(Boolean).join(", ");
  const [longitude, latitude] = point.coordinates;
  const rows = {
    Status: point.status, Sold: point.sold, Type: point.type, Rooms: rooms(point), Built: point.built,
    Coordinates: `${longitude}, ${latitude}`, Id: point.id,
  };
  at("detail-facts").replaceChildren(...Object.entries(rows).filter(([, value]) => value != null && value !== "").flatMap(
    ([name, value]) => [element("dt", name), element("dd", value)]));
  at("feature").hidden = true;
}

// Fetch the whole feature by its identifier.
async function feature() {
  const point = chosen, [path] = FEEDS[at("feed").value];
  const url = new URL(`${path}/${encodeURIComponent(point.id)}`, location.origin);
  const own = exampleFeatures.get(point.id);
  const shown = own ? JSON.stringify(own, null, 2) : await ask(url, { Accept: GEOJSON, "x-api-key": at("key").value.trim() }, new AbortController().signal)
    .then(found => JSON.stringify(found, null, 2), error => error.message);
  if (point !== chosen) return;
  at("feature").textContent = shown;
  at("feature").hidden = false;
  at("feature").focus();
}

at("asking").addEventListener("submit", event => {
  event.preventDefault();
  read();
});
at("stop").addEventListener("click", () => reading?.abort());
at("closer").addEventListener("click", () => plane.zoomBy(1, undefined, true));
at("farther").addEventListener("click", () => plane.zoomBy(-1, undefined, true));
at("everything").addEventListener("click", () => plane.fit());
at("close").addEventListener("click", () => choose(null));
at("as-json").addEventListener("click", feature);
at("detail").addEventListener("keydown", event => {
  if (event.key === "Escape") choose(null);
});
board.hidden = at("asking").hidden = false;
at("key").value = kept.read("key") ?? "";
at("key").addEventListener("change", offerCompanies);
document.addEventListener("reader-key", ({ detail }) => {
  at("key").value = detail;
  offerCompanies();
});
plane.resize();
offerCompanies();
await example();
borders();
