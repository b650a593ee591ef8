// Sends the request of an operation with the reader's key and shows the response. Parameters are those of the table of the page.

const MOST = 200_000;
const [method, path] = document.querySelector("main code").textContent.split(" ");
const table = document.querySelector("h2#parameters + .scroll");
const example = document.querySelector("main .examples, main .code");
const needsKey = example.textContent.includes("x-api-key");

function made(kind, properties = {}, ...children) {
  const element = Object.assign(document.createElement(kind), properties);
  element.append(...children);
  return element;
}

// The cells of a row: name, type, meaning, example.
function parameter(row) {
  const [name, type, , shown] = [...row.cells].map(cell => cell.textContent);
  const isRequired = type.includes("required"), codes = [...row.cells[1].querySelectorAll("code")].map(code => code.textContent);
  const words = type.startsWith("boolean") ? ["true", "false"] : type.startsWith("one of") ? codes.slice(0, type.includes("default") ? -1 : undefined) : [];
  const field = words.length
    ? made("select", {}, made("option", { value: "", textContent: "–" }), ...words.map(word => made("option", { value: word, textContent: word })))
    : made("input", { placeholder: shown, autocomplete: "off", spellcheck: false });
  Object.assign(field, { name, required: isRequired });
  if (isRequired) field.value = shown;
  return made("label", {}, made("span", { textContent: isRequired ? `${name} *` : name }), field);
}

const opener = made("button", { type: "button", className: "go", textContent: "Try it" });
const form = made("form", { id: "try", hidden: true }, ...(table ? [...table.querySelectorAll("tbody tr")].map(parameter) : []));
const said = made("p", { id: "try-said" }), shown = made("code"), body = made("pre", { className: "scroll", tabIndex: 0, hidden: true }, shown);
said.setAttribute("role", "status");
opener.setAttribute("aria-expanded", "false");
form.append(made("button", { className: "go", textContent: "Send" }), said, body);
example.after(opener, form);

opener.addEventListener("click", () => {
  form.hidden = !form.hidden;
  opener.setAttribute("aria-expanded", String(!form.hidden));
});

function address() {
  const query = new URLSearchParams();
  let filled = path;
  for (const [name, value] of new FormData(form)) {
    if (filled.includes(`{${name}}`)) filled = filled.replace(`{${name}}`, encodeURIComponent(value));
    else if (value) query.append(name, value);
  }
  return filled + (query.size ? `?${query}` : "");
}

// Streams may be long: the beginning is enough.
async function beginning(response) {
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let text = "";
  for (let part = await reader.read(); !part.done; part = await reader.read()) {
    text += part.value;
    if (text.length > MOST) {
      await reader.cancel();
      return { text: `${text.slice(0, MOST)}\n…`, isWhole: false };
    }
  }
  return { text, isWhole: true };
}

function pretty({ text, isWhole }) {
  try { return isWhole ? JSON.stringify(JSON.parse(text), null, 2) : text; } catch { return text; }
}

form.addEventListener("submit", async event => {
  event.preventDefault();
  const key = kept.read("key");
  if (needsKey && !key) {
    said.textContent = "Enter your key at Key above.";
    at("key-panel").showPopover();
    return;
  }
  const asked = address(), began = performance.now();
  said.textContent = "…";
  try {
    const response = await fetch(asked, { method, headers: needsKey ? { "x-api-key": key } : {}, cache: "no-store" });
    shown.textContent = pretty(await beginning(response));
    said.textContent = `${response.status} ${response.statusText} in ${Math.round(performance.now() - began)} ms: ${asked}`;
    body.hidden = false;
  } catch (failure) {
    said.textContent = `The request failed: ${failure.message}.`;
    body.hidden = true;
  }
});
