// Search over an index that this service makes of its pages and declarations. It is loaded when the search is opened.

const { library, index: address } = document.getElementById("search-script").dataset;
const MOST = 20, SNIPPET = 140;
// They say nothing of what is looked for.
const FILLERS = new Set("a an and are by can do does for from get how i in into is it my of on or the to what when where which with you your".split(" "));
const dialog = at("search-dialog"), words = at("search-words"), results = at("search-results"), said = at("search-said");
let index = null;

// `ListAgentUUID` and `updated_since` are found by their parts, too.
function tokens(text) {
  const whole = text.split(/[^\p{L}\p{N}_]+/u).filter(Boolean);
  const parts = whole.flatMap(word => word.split(/_|(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])/)).filter(Boolean);
  return [...new Set([...whole, ...parts].map(word => word.toLowerCase()))];
}

async function load() {
  const [{ default: MiniSearch }, answer] = await Promise.all([import(library), fetch(address)]);
  if (!answer.ok) throw new Error(`status ${answer.status}`);
  const made = new MiniSearch({
    idField: "url", fields: ["title", "group", "words", "text"], storeFields: ["url", "title", "group", "text"], tokenize: tokens,
    searchOptions: { prefix: true, fuzzy: term => term.length > 4 ? 0.2 : false, boost: { title: 4, words: 3, group: 1.5 }, tokenize: asked },
  });
  made.addAll(await answer.json());
  return made;
}

function asked(text) {
  const all = text.toLowerCase().split(/[^\p{L}\p{N}_]+/u).filter(Boolean), telling = all.filter(word => !FILLERS.has(word));
  return telling.length ? telling : all;
}

// First what has all words, then what has some.
function find(made, text) {
  const all = made.search(text, { combineWith: "AND" }), urls = new Set(all.map(found => found.url));
  return [...all, ...made.search(text).filter(found => !urls.has(found.url))];
}

function snippet(text, terms) {
  const lower = text.toLowerCase(), first = Math.min(...terms.map(term => lower.indexOf(term)).filter(place => place >= 0));
  const from = Number.isFinite(first) ? Math.max(0, text.lastIndexOf(" ", Math.max(0, first - 40)) + 1) : 0;
  return `${from ? "… " : ""}${text.slice(from, from + SNIPPET)}${from + SNIPPET < text.length ? " …" : ""}`;
}

// Marks the found terms; text is never markup.
function marked(text, terms) {
  const made = document.createElement("span");
  if (!terms.length) return made.textContent = text, made;
  const pattern = new RegExp(`(${terms.map(term => term.replace(/[.*+?^$()|[\]{}\\]/g, "\\$&")).join("|")})`, "gi");
  text.split(pattern).forEach((part, place) => {
    const child = place % 2 ? document.createElement("mark") : document.createTextNode(part);
    if (place % 2) child.textContent = part;
    made.append(child);
  });
  return made;
}

function item(found) {
  const made = document.createElement("li"), link = document.createElement("a"), group = document.createElement("small");
  const title = document.createElement("b"), terms = found.terms.sort((one, other) => other.length - one.length);
  link.href = found.url;
  title.append(marked(found.title, terms));
  group.textContent = found.group === found.title ? "Page" : found.group;
  link.append(title, " ", group);
  if (found.text) {
    const text = document.createElement("span");
    text.className = "snippet";
    text.append(marked(snippet(found.text, terms), terms));
    link.append(text);
  }
  made.append(link);
  return made;
}

async function search() {
  const text = words.value.trim();
  try {
    index ??= load();
    const made = await index;
    if (text !== words.value.trim()) return;
    const found = text ? find(made, text) : [];
    results.replaceChildren(...found.slice(0, MOST).map(item));
    results.dataset.words = text;
    said.textContent = !text ? "" : found.length ? `${found.length} found` : "Nothing found.";
  } catch (failure) {
    index = null;
    said.textContent = `The search cannot be loaded: ${failure.message}.`;
  }
}

function show() {
  if (dialog.open) return;
  dialog.showModal();
  words.select();
  search();
}

// Arrow keys move between the words and the results.
function move(step) {
  const stops = [words, ...results.querySelectorAll("a")], now = stops.indexOf(document.activeElement);
  stops[Math.min(stops.length - 1, Math.max(0, now + step))].focus();
}

dialog.addEventListener("keydown", event => {
  const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
  if (step) {
    event.preventDefault();
    move(step);
  } else if (event.key === "Escape") {
    // Otherwise the first one only clears the words.
    event.preventDefault();
    dialog.close();
  } else if (event.key === "Enter" && event.target === words) {
    event.preventDefault();
    results.querySelector("a")?.click();
  }
});
dialog.addEventListener("click", event => (event.target === dialog || event.target.closest("a")) && dialog.close());
words.addEventListener("input", search);
for (const button of [at("search-button"), ...document.querySelectorAll("[data-search]")]) {
  button.addEventListener("click", show);
  button.hidden = false;
}
// Where there is no page, its address has words to search for.
if (document.querySelector("[data-search]")) words.value = location.pathname.split("/").at(-1).replace(/[-_.]+/g, " ");
document.addEventListener("keydown", event => {
  const isTyping = event.target.closest?.("input, textarea, select, [contenteditable]");
  const isAsked = event.key === "/" && !isTyping || event.key === "k" && (event.ctrlKey || event.metaKey);
  if (!isAsked || event.altKey) return;
  event.preventDefault();
  show();
});
