// Adds to a page that is whole without it: the list of all images, the viewer, copy buttons.

import { h, render } from "preact";
import { useEffect, useMemo, useState } from "preact/hooks";
import htm from "htm";
import { addCopyButtons } from "./copying.js";
import { DEFAULTS, changed, put, read, write } from "./link.js";
import { List } from "./list.js";
import { addReferences } from "./matrix.js";
import { parse } from "./query.js";
import { Rows, between, open, pictureOf, rowsOf } from "./rows.js";
import { Viewer } from "./viewer.js";

const html = htm.bind(h);

const FIRST = { ...DEFAULTS, page: "images" };

function App({ run }) {
  const [view, setView] = useState(() => read(location.hash) ?? FIRST);
  const [rows, setRows] = useState(() => new Rows(run, []));
  const chosen = useMemo(() => comparisons(run, view), [view.cell, view.ref]);

  useEffect(() => {
    const follow = () => {
      const asked = read(location.hash);
      changed();
      setView((was) => asked ?? { ...was, page: "images" });
      if (asked?.page === "images") document.getElementById("images").scrollIntoView({ behavior: "instant" });
    };
    follow();
    addEventListener("hashchange", follow);
    return () => removeEventListener("hashchange", follow);
  }, []);
  useEffect(() => {
    let current = true;
    rowsOf(run, chosen).then((found) => current && setRows(found));
    return () => void (current = false);
  }, [chosen]);
  const sorted = useMemo(() => rows.sorted(view.sort), [rows, view.sort]);
  const [shown, fault] = useMemo(() => filtered(rows, sorted, view.q), [rows, sorted, view.q]);
  const row = useMemo(() => rows.of(view.pair, view.id, view.e), [rows, view.pair, view.id, view.e]);

  const go = (next) => {
    put(next);
    setView(next);
  };
  const image = ({ id, comparison }) => ({ ...view, page: "image", pair: comparison.pair, id, e: String(comparison.entry) });
  const neighbour = (step) => {
    const kept = pictures(rows, shown);
    const at = kept.findIndex((each) => each.picture === pictureOf(view.pair, view.id));
    const next = kept[at < 0 ? 0 : at + step];
    if (next) go(image(next));
  };
  const close = () => go({ ...view, page: "images" });
  return html`
    ${run.comparisons.length > 0 && html`<${List} run=${run} chosen=${chosen} view=${view} rows=${rows} shown=${shown} fault=${fault} go=${(next) => go({ ...next, page: "images" })} open=${(each) => write(image(each))}/>`}
    ${view.page === "image" && html`<${Viewer} run=${run} view=${view} row=${row} neighbour=${neighbour} go=${go} close=${close}/>`}`;
}

// The comparison of a link, or all.
function comparisons(run, { cell, ref }) {
  const other = ref && between(run, cell, ref);
  if (other) return [other];
  const found = run.comparisons.filter((each) => String(each.entry) === cell);
  return found.length ? found : run.comparisons;
}

function filtered(rows, order, query) {
  try {
    const test = parse(query);
    return [order.filter((number) => test(rows.at(number))), ""];
  } catch (error) {
    return [new Uint32Array(0), error.message];
  }
}

// The rows whose pixels were kept, each picture once: several comparisons may share it.
function pictures(rows, shown) {
  const found = new Map();
  for (const number of shown) {
    const row = rows.at(number);
    if (row.stored && !found.has(row.picture)) found.set(row.picture, row);
  }
  return [...found.values()];
}

function addLinks(run) {
  for (const card of document.querySelectorAll(".card[data-id]")) {
    const { pair, id } = card.dataset;
    const target = write({ ...DEFAULTS, page: "image", pair, id });
    const link = Object.assign(document.createElement("a"), { href: target, textContent: "Open in the viewer" });
    link.className = "open";
    card.append(link);
    card.querySelector(".stage").addEventListener("click", () => void (location.hash = target));
  }
}

// A cell leads to the images that flipped in it. Without predictions it keeps its link to the table of
// numbers, which is of aligned cells.
function linkCells(run, panel, ref) {
  for (const link of panel.querySelectorAll("td a")) {
    const cell = link.hash.replace("#entry-", "");
    const known = ref ? run && between(run, cell, ref) : run?.comparisons.some((each) => String(each.entry) === cell);
    if (known) {
      link.hash = write({ ...DEFAULTS, page: "images", metric: panel.dataset.metric, ref, cell, q: "flip:yes" });
      link.title = "show the images that flipped";
    } else if (ref) link.removeAttribute("href");
  }
}

// Keys of the page itself: / goes to the filter, w opens the worst image.
function pageKey(event) {
  const typing = /^(INPUT|SELECT|TEXTAREA)$/.test(event.target.tagName);
  const plain = !event.ctrlKey && !event.metaKey && !event.altKey;
  if (typing || !plain || document.querySelector("dialog[open]")) return;
  const target = { "/": "#query", w: ".card .open" }[event.key];
  const found = target && document.querySelector(target);
  if (!found) return;
  event.preventDefault();
  if (event.key === "/") found.focus();
  else found.click();
}

async function start() {
  const run = self.alignkitRun && (await open(self.alignkitRun));
  await addReferences((panel, ref) => linkCells(run, panel, ref));
  addCopyButtons(document);
  if (!run) return;
  addLinks(run);
  addEventListener("keydown", pageKey);
  render(html`<${App} run=${run}/>`, document.getElementById("image-list"));
}

start();
