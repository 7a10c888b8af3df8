"use strict";
// Filters the table of what did not succeed. Every text is set as text, never as markup.
(() => {
  const PAGE = 200;
  const filter = document.getElementById("filter");
  if (!filter) return;
  const table = document.querySelector("#missed tbody");
  const shown = document.getElementById("shown");
  const more = document.getElementById("more");
  const search = document.getElementById("text");
  const reason = document.getElementById("reason");
  const { texts, rows } = JSON.parse(document.getElementById("rows").textContent);
  const count = new Intl.NumberFormat("en-US");
  const lower = texts.map((text) => text.toLowerCase());
  let matching = rows;
  let limit = PAGE;

  const ID = 0, STATUS = 1, REASON = 2, ERROR = 3, WHERE = 4, TRIES = 5;

  function matches(row, wanted, place) {
    if (place !== null && row[REASON] !== place) return false;
    if (wanted === "") return true;
    return [ERROR, WHERE].some((column) => lower[row[column]].includes(wanted))
      || row[ID].toLowerCase().includes(wanted);
  }

  function cell(name, text, { code = false, number = false } = {}) {
    const made = document.createElement(name);
    if (name === "th") made.scope = "row";
    if (number) made.className = "number";
    if (code) {
      const inner = document.createElement("code");
      inner.textContent = text;
      made.append(inner);
    } else {
      made.textContent = text;
    }
    return made;
  }

  function line(row) {
    const made = document.createElement("tr");
    made.append(
      cell("th", row[ID], { code: true }),
      cell("td", texts[row[STATUS]]),
      cell("td", texts[row[REASON]]),
      cell("td", texts[row[ERROR]]),
      cell("td", count.format(row[TRIES]), { number: true }),
      cell("td", texts[row[WHERE]], { code: true }),
    );
    return made;
  }

  function draw(from) {
    const part = matching.slice(from, limit).map(line);
    if (from === 0) table.replaceChildren(...part);
    else table.append(...part);
    const there = Math.min(limit, matching.length);
    shown.textContent = matching.length === 0
      ? "Nothing matches."
      : `${count.format(there)} of ${count.format(matching.length)} shown`
        + (matching.length < rows.length ? `, out of ${count.format(rows.length)}` : "");
    more.hidden = there === matching.length;
  }

  function apply() {
    const wanted = search.value.trim().toLowerCase();
    const place = reason.value === "" ? null : texts.indexOf(reason.value);
    matching = rows.filter((row) => matches(row, wanted, place));
    limit = PAGE;
    draw(0);
  }

  search.addEventListener("input", apply);
  reason.addEventListener("change", apply);
  more.addEventListener("click", () => {
    const from = limit;
    limit += PAGE;
    draw(from);
  });
  filter.hidden = false;
  apply();
})();
