"use strict";
(() => {
  const root = document.documentElement;
  window.addEventListener("error", (event) => { root.dataset.error = event.message || "a file could not be loaded"; });

  const setAll = (open) => document.querySelectorAll("main details").forEach((item) => { item.open = open; });
  document.querySelectorAll("button[data-action]").forEach((button) => {
    button.hidden = false;
    button.addEventListener("click", () => setAll(button.dataset.action === "expand"));
  });

  // A link into a closed part opens it.
  const reveal = () => {
    const target = location.hash && document.getElementById(decodeURIComponent(location.hash.slice(1)));
    if (!target) return;
    for (let part = target; part; part = part.parentElement) if (part.tagName === "DETAILS") part.open = true;
    target.scrollIntoView();
  };
  window.addEventListener("hashchange", reveal);
  reveal();

  // NaN counts as larger than every number, as in the verdict.
  const key = (cell) => {
    if (!cell || cell.dataset.value === undefined) return -Infinity;
    const value = parseFloat(cell.dataset.value.replace("inf", "Infinity"));
    return Number.isNaN(value) ? Infinity : value;
  };
  const sortBy = (table, column) => {
    const rows = [...table.tBodies[0].rows];
    const by = column === 0
      ? (a, b) => a.cells[0].textContent.localeCompare(b.cells[0].textContent)
      : (a, b) => { const [x, y] = [key(a.cells[column]), key(b.cells[column])]; return x === y ? 0 : y - x; };
    rows.sort(by).forEach((row) => table.tBodies[0].append(row));
  };
  document.querySelectorAll("table.sortable").forEach((table) => {
    [...table.tHead.rows[0].cells].forEach((cell, column) => {
      const button = document.createElement("button");
      button.type = "button";
      button.append(...cell.childNodes);
      button.addEventListener("click", () => sortBy(table, column));
      cell.append(button);
    });
  });
  root.dataset.ready = "true";
})();
