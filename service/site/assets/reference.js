"use strict";

// Else Swagger UI takes over links within the page, and the skip link no longer moves the focus. It is read when that is loaded.
window.noZensmooth = true;

const dark = window.matchMedia("(prefers-color-scheme: dark)");
const follow = () => document.documentElement.classList.toggle("dark-mode", dark.matches);
follow();
dark.addEventListener("change", follow);

const nothing = () => () => null;

// What the page says itself is left out, and so is the choice of the only server. A link within a button cannot be reached by
// the keyboard and is a text here: the address follows what is opened all the same.
const ours = (system) => ({
  wrapComponents: {
    InfoContainer: nothing,
    ServersContainer: nothing,
    OperationServers: nothing,
    DeepLink: () => (properties) => system.React.createElement("span", null, properties.text),
  },
});

// What Swagger UI shows without a name, or cannot be reached by the keyboard: by selector, what mends it.
const mends = {
  "main": (element) => {
    element.setAttribute("role", "presentation");
    element.removeAttribute("tabindex");
  },
  "tr[data-param-name] :is(input, select, textarea)": (element) =>
    element.setAttribute("aria-label", element.closest("tr").dataset.paramName),
  "select:not([aria-label])": (element) => element.setAttribute("aria-label", element.title || "Choice"),
  "button.close-modal": (element) => element.setAttribute("aria-label", "Close"),
  "button.modal-btn[aria-label]": (element) => element.removeAttribute("aria-label"),
  "pre, .table-container, .dialog-ux .modal-ux-content": (element) => element.setAttribute("tabindex", "0"),
};
const root = document.getElementById("swagger-ui");
const mend = () => {
  for (const [selector, change] of Object.entries(mends)) root.querySelectorAll(selector).forEach(change);
};
new MutationObserver(mend).observe(root, { childList: true, subtree: true });

// Nothing is asked but this service: no validator elsewhere. A key lives as long as the page.
const options = {
  url: "/v1/openapi.json",
  dom_id: "#swagger-ui",
  plugins: [ours],
  deepLinking: true,
  validatorUrl: null,
  persistAuthorization: false,
  displayRequestDuration: true,
  docExpansion: "list",
  defaultModelsExpandDepth: -1,
  supportedSubmitMethods: ["get"],
};
document.addEventListener("DOMContentLoaded", () => SwaggerUIBundle(options));
