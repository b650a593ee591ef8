// Code: copy buttons, examples in the reader's language, with the address of this service and the reader's key.

const LANGUAGES = ["curl", "Python", "JavaScript"];

function fill(key) {
  const texts = { host: location.origin, address: `${location.origin}/v1`, key };
  for (const place of document.querySelectorAll("[data-filled]")) {
    place.dataset.written ??= place.textContent;
    place.textContent = texts[place.dataset.filled] || place.dataset.written;
  }
}

// The clipboard needs a secure context. Without one, select the code and copy the selection.
async function copy(code) {
  if (navigator.clipboard) return navigator.clipboard.writeText(code.textContent);
  getSelection().selectAllChildren(code);
  if (!document.execCommand("copy")) throw new Error("refused");
  getSelection().removeAllRanges();
}

function copyButton(block) {
  const button = document.createElement("button");
  Object.assign(button, { type: "button", className: "copy", textContent: "Copy" });
  button.setAttribute("aria-live", "polite");
  button.addEventListener("click", async () => {
    button.textContent = await copy(block.querySelector("code")).then(() => "Copied", () => "Select it");
    setTimeout(() => { button.textContent = "Copy"; }, 2000);
  });
  block.append(button);
}

function languageButton(language) {
  const button = document.createElement("button");
  Object.assign(button, { type: "button", textContent: language });
  button.dataset.choice = language;
  button.addEventListener("click", () => {
    const before = button.getBoundingClientRect().top;
    choose(language);
    kept.write("language", language);
    // Examples above change their height, too.
    scrollBy({ top: button.getBoundingClientRect().top - before, behavior: "instant" });
  });
  return button;
}

function choose(language) {
  for (const button of document.querySelectorAll("[data-choice]")) button.setAttribute("aria-pressed", button.dataset.choice === language);
  for (const block of document.querySelectorAll("[data-language]")) block.classList.toggle("chosen", block.dataset.language === language);
}

for (const examples of document.querySelectorAll(".examples")) {
  const bar = document.createElement("div");
  bar.className = "languages";
  bar.setAttribute("role", "group");
  bar.setAttribute("aria-label", "Language");
  bar.append(...LANGUAGES.map(languageButton));
  examples.prepend(bar);
}
document.querySelectorAll(".code").forEach(copyButton);
choose(LANGUAGES.includes(kept.read("language")) ? kept.read("language") : LANGUAGES[0]);
fill(kept.read("key"));
document.addEventListener("reader-key", ({ detail }) => fill(detail));
