// Filters the field dictionary: rows that contain all words stay, and the sections that hold them open.

const sections = [...document.querySelectorAll("details.fields")].map(section => ({
  section,
  rows: [...section.querySelectorAll("tbody tr")].map(row => ({ row, text: `${section.querySelector("h2").textContent} ${row.textContent}`.toLowerCase() })),
}));
const fieldWords = at("field-words");

function filter() {
  const asked = fieldWords.value.toLowerCase().split(/\s+/).filter(Boolean);
  let count = 0;
  for (const { section, rows } of sections) {
    let shown = 0;
    for (const { row, text } of rows) {
      row.hidden = !asked.every(word => text.includes(word));
      shown += row.hidden ? 0 : 1;
    }
    count += shown;
    section.hidden = !shown;
    section.open = asked.length > 0 && shown > 0;
  }
  at("field-count").textContent = asked.length ? `${count} field${count === 1 ? "" : "s"}` : "";
}

fieldWords.addEventListener("input", () => {
  filter();
  // The rows that are left come into view below the words.
  const form = at("field-filter");
  if (fieldWords.value && form.getBoundingClientRect().top > innerHeight / 3) form.scrollIntoView({ behavior: "instant" });
});
at("field-filter").addEventListener("submit", event => event.preventDefault());
at("field-filter").hidden = false;
