// What all pages share: the reader's key, the position of the sidebar, the section in view. Pages work without scripts.
"use strict";

const at = id => document.getElementById(id);

// Values of this tab. Storage may be forbidden; then a value lasts until the page is left.
const kept = {
  values: new Map(),
  read(name) {
    try { return sessionStorage.getItem(name); } catch { return this.values.get(name) ?? null; }
  },
  write(name, value) {
    try {
      if (value) sessionStorage.setItem(name, value); else sessionStorage.removeItem(name);
    } catch { this.values.set(name, value); }
  },
};

function useKey(text) {
  kept.write("key", text);
  at("key-button").classList.toggle("set", Boolean(text));
  at("key-button").textContent = text ? "Key ✓" : "Key";
  at("forget-key").hidden = !text;
  document.dispatchEvent(new CustomEvent("reader-key", { detail: text }));
}

function startKey() {
  const panel = at("key-panel"), input = at("own-key");
  at("key-button").hidden = false;
  panel.addEventListener("beforetoggle", () => { input.value = kept.read("key") ?? ""; });
  // In the markup, the browser would apply it to the page, and complain of each page that is opened at a section.
  input.autofocus = true;
  panel.addEventListener("submit", event => {
    event.preventDefault();
    useKey(input.value.trim());
    panel.hidePopover();
  });
  at("forget-key").addEventListener("click", () => {
    useKey("");
    panel.hidePopover();
  });
  // The demo passes its key behind the #, which is not sent; another host may not choose the key of a reader.
  const passed = ["127.0.0.1", "localhost", "[::1]"].includes(location.hostname) && location.hash.startsWith("#key=");
  if (passed) kept.write("key", location.hash.slice("#key=".length)), history.replaceState(null, "", location.pathname);
  useKey(kept.read("key") ?? "");
}

// The sidebar stays where it was on the page before.
function startSidebar() {
  const sidebar = at("navigation");
  sidebar.scrollTop = Number(kept.read("sidebar") ?? 0);
  addEventListener("pagehide", () => kept.write("sidebar", String(sidebar.scrollTop || "")));
}

// Marks the section in view in the contents.
function startContents() {
  const links = new Map([...document.querySelectorAll(".contents a")].map(link => [decodeURIComponent(link.hash.slice(1)), link]));
  if (!links.size) return;
  const headings = [...links.keys()].map(at).filter(Boolean);
  const mark = () => {
    const passed = headings.filter(heading => heading.getBoundingClientRect().top < 120).at(-1) ?? headings[0];
    for (const [anchor, link] of links) {
      if (anchor === passed.id) link.setAttribute("aria-current", "true"); else link.removeAttribute("aria-current");
    }
  };
  let isDue = false;
  addEventListener("scroll", () => {
    if (isDue) return;
    isDue = true;
    requestAnimationFrame(() => {
      isDue = false;
      mark();
    });
  }, { passive: true });
  mark();
  at("page-contents").addEventListener("click", event => event.target.closest("a") && at("page-contents").matches(":popover-open")
    && at("page-contents").hidePopover());
}

// A heading in a closed section opens it when a link leads there.
function openSection() {
  const target = location.hash && at(decodeURIComponent(location.hash.slice(1)));
  const section = target && target.closest("details");
  if (!section || section.open) return;
  section.open = true;
  target.scrollIntoView();
}

startSidebar();
if (at("key-panel")) startKey();
startContents();
addEventListener("hashchange", openSection);
openSection();
document.addEventListener("click", event => event.target.closest?.('a[href^="#"]') && setTimeout(openSection));
addEventListener("beforeprint", () => document.querySelectorAll("details").forEach(section => { section.open = true; }));
