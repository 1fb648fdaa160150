// The matrix as the address has it: its metric, the arrow keys, and the columns that are out of sight.

import { element } from "./element.js";
import { DEFAULTS, read, write } from "./link.js";

const seen = (element) => element.getClientRects().length > 0;

// `link` turns the cells of a panel into links.
export function addMetrics(link) {
  let view = { ...DEFAULTS };
  const radios = [...document.querySelectorAll(".switch input[name=metric]")];
  const go = (metric) => location.replace(write({ ...view, ...read(location.hash), page: "matrix", metric }));
  const follow = () => {
    view = read(location.hash) ?? view;
    const radio = radios.find(({ id }) => id === `show-${view.metric}`) ?? radios[0];
    if (radio) radio.checked = true;
  };
  for (const panel of document.querySelectorAll("#matrix .panel")) {
    panel.querySelectorAll(".edge").forEach(addMore);
    link(panel);
  }
  addEventListener("keydown", walk);
  for (const radio of radios) {
    radio.addEventListener("change", () => go(radio === radios[0] ? "" : radio.id.replace("show-", "")));
  }
  addEventListener("hashchange", follow);
  follow();
  if (read(location.hash)?.page === "matrix") document.getElementById("matrix").scrollIntoView({ behavior: "instant" });
}

// Says how many columns are out of sight on the right, and shows them when it is pressed.
function addMore(edge) {
  const scroll = edge.querySelector(".scroll");
  const more = element("button", { type: "button", className: "more", hidden: true });
  edge.append(more);
  const count = () => {
    const right = scroll.getBoundingClientRect().right;
    const heads = [...scroll.querySelectorAll("thead .head")].filter(seen);
    const hidden = heads.filter((head) => head.getBoundingClientRect().right > right + 1).length;
    more.hidden = hidden === 0;
    more.textContent = `${hidden} more →`;
    more.title = "columns out of sight";
  };
  more.addEventListener("click", () => scroll.scrollBy({ left: scroll.clientWidth * 0.7 }));
  scroll.addEventListener("scroll", count);
  const observer = new ResizeObserver(count);
  observer.observe(scroll);
  observer.observe(scroll.querySelector("table"));
}

const STEPS = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] };

// Arrows go from a cell to its neighbours.
function walk(event) {
  const plain = !event.ctrlKey && !event.metaKey && !event.altKey;
  const cell = event.target.closest?.(".matrix td");
  const found = plain && cell && STEPS[event.key] && neighbour(cell, STEPS[event.key]);
  if (!found) return;
  event.preventDefault();
  found.focus();
}

// The first cell of the metric that is in sight.
export const firstCell = () => [...document.querySelectorAll(".matrix td a")].find(seen);

function neighbour(cell, [down, right]) {
  const rows = [...cell.closest("tbody").rows];
  const at = rows.indexOf(cell.parentNode);
  for (let y = at + down, x = cell.cellIndex + right; rows[y]?.cells[x]; y += down, x += right) {
    const link = rows[y].cells[x].querySelector("a");
    if (link && seen(link)) return link;
  }
  return null;
}
