"use strict";

// Otherwise Swagger UI handles links within the page, and the skip link no longer moves the focus. Must be set before it loads.
window.noZensmooth = true;

const dark = window.matchMedia("(prefers-color-scheme: dark)");
const follow = () => document.documentElement.classList.toggle("dark-mode", dark.matches);
follow();
dark.addEventListener("change", follow);

const nothing = () => () => null;

// Hide the introduction, which the page has itself, and the choice of servers, because there is one. Replace links inside buttons,
// which the keyboard cannot reach, with text: opening an operation still updates the address.
const ours = (system) => ({
  wrapComponents: {
    InfoContainer: nothing,
    ServersContainer: nothing,
    OperationServers: nothing,
    DeepLink: () => (properties) => system.React.createElement("span", null, properties.text),
  },
});

// Fixes for elements of Swagger UI that lack a name or cannot be reached by the keyboard, by selector.
const fixes = {
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
const fix = () => {
  for (const [selector, change] of Object.entries(fixes)) root.querySelectorAll(selector).forEach(change);
};
new MutationObserver(fix).observe(root, { childList: true, subtree: true });

// Send requests to this service only, so no external validator. Swagger UI keeps a key until the page is left.
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
document.addEventListener("DOMContentLoaded", () => {
  let isAuthorized = false;
  const authorize = key => {
    if (key) reference.preauthorizeApiKey("apiKeyHeader", key);
    else if (isAuthorized) reference.authActions.logout(["apiKeyHeader"]);
    isAuthorized = Boolean(key);
  };
  const reference = SwaggerUIBundle({ ...options, onComplete: () => authorize(kept.read("key")) });
  document.addEventListener("reader-key", ({ detail }) => authorize(detail));
});
