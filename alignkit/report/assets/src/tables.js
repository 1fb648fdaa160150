// Plain tables of the page: a click on a head sorts the rows, and a long table has a filter.

import { element } from "./element.js";
import { read } from "./numbers.js";

const LONG = 12; // rows from which a filter helps

export function addOrder(root) {
  for (const table of root.querySelectorAll(".scroll table:not(.matrix, .overview)")) {
    const body = table.tBodies[0];
    if (body.rows.length < 3) continue;
    // of two lines of heads the last has one a column
    [...table.tHead.rows].at(-1).querySelectorAll("th").forEach((head) => addSort(head, body));
    if (body.rows.length >= LONG) addFilter(table.closest(".scroll"), body);
  }
}

function addSort(head, body) {
  const button = element("button", { type: "button", title: "sort" }, ...head.childNodes);
  head.replaceChildren(button);
  button.addEventListener("click", () => {
    const was = head.ariaSort;
    for (const each of head.parentNode.cells) each.removeAttribute("aria-sort");
    const falls = was ? was === "ascending" : head.classList.contains("n");
    body.append(...sorted([...body.rows], head.cellIndex, falls));
    head.ariaSort = falls ? "descending" : "ascending";
  });
}

// Numbers by their size, words by the alphabet; a cell without a number comes last in both orders.
function sorted(rows, column, falls) {
  const keys = new Map(rows.map((row) => [row, row.cells[column].textContent.trim()]));
  const numeric = rows.some((row) => !Number.isNaN(read(keys.get(row))));
  return rows.sort((first, second) => {
    const [a, b] = [keys.get(first), keys.get(second)];
    if (!numeric) return (falls ? -1 : 1) * a.localeCompare(b);
    const [x, y] = [read(a), read(b)];
    return Number.isNaN(x) - Number.isNaN(y) || (falls ? y - x : x - y) || 0;
  });
}

function addFilter(scroll, body) {
  const input = element("input", { type: "search", placeholder: "Filter rows", ariaLabel: "Filter rows" });
  input.addEventListener("input", () => {
    const words = input.value.toLowerCase().split(/\s+/);
    for (const row of body.rows) row.hidden = !words.every((word) => row.textContent.toLowerCase().includes(word));
  });
  scroll.before(element("p", { className: "filter" }, input));
}
