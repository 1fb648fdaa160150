// Adds to a page that is whole without it: the list of all images, the viewer, copy buttons.

import { render } from "preact";
import { useEffect, useMemo, useState } from "preact/hooks";
import { addCopyButtons } from "./copying.js";
import { element } from "./element.js";
import { showHelp } from "./help.js";
import { html } from "./html.js";
import { DEFAULTS, changed, put, read, write } from "./link.js";
import { List } from "./list.js";
import { addMetrics, firstCell } from "./matrix.js";
import { parse } from "./query.js";
import { Rows, open, pictureOf, rowOf, rowsOf } from "./rows.js";
import { addOrder } from "./tables.js";
import { Unkept } from "./unkept.js";
import { Viewer } from "./viewer.js";

const FIRST = { ...DEFAULTS, page: "images" };

function App({ run }) {
  const [view, setView] = useState(() => read(location.hash) ?? FIRST);
  const [rows, setRows] = useState(() => new Rows(run, []));
  const [row, setRow] = useState();
  const chosen = useMemo(() => comparisons(run, view), [view.cell]);

  useEffect(() => {
    const follow = () => {
      const asked = read(location.hash);
      changed();
      setView((was) => asked ?? { ...was, page: "images" });
      if (asked?.page === "images") document.getElementById("images")?.scrollIntoView({ behavior: "instant" });
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
  const { shown, faults } = useMemo(() => filtered(run, rows, sorted, view.q), [rows, sorted, view.q]);
  const images = useMemo(() => rows.firsts(shown), [rows, shown]);
  useEffect(() => {
    let current = true;
    setRow(undefined);
    if (view.page === "image") rowOf(run, chosen, view).then((found) => current && setRow(found));
    return () => void (current = false);
  }, [chosen, view.page, view.pair, view.id, view.e]);

  const go = (next) => {
    put(next);
    setView(next);
  };
  const image = ({ id, comparison }) => ({ ...view, page: "image", pair: comparison.pair, id, e: String(comparison.entry) });
  const neighbour = (step) => {
    const all = rows.length ? [...images].map((number) => rows.at(number)) : run.stored.map(alone);
    const at = all.findIndex((each) => each.picture === pictureOf(view.pair, view.id));
    const next = all[at < 0 ? 0 : at + step];
    if (next) go(image(next));
  };
  const Opened = run.storedBy.has(pictureOf(view.pair, view.id)) || !run.comparisons.length ? Viewer : Unkept;
  const close = () => go({ ...view, page: "images" });
  return html`
    ${run.comparisons.length > 0 && html`<${List} run=${run} chosen=${chosen} view=${view} rows=${rows} shown=${shown} images=${images} faults=${faults} go=${(next) => go({ ...next, page: "images" })} open=${(each) => write(image(each))}/>`}
    ${view.page === "image" && html`<${Opened} run=${run} view=${view} row=${row} neighbour=${neighbour} go=${go} close=${close}/>`}`;
}

// The comparison of a link, or the headline's, or all.
function comparisons(run, { cell }) {
  const found = run.comparisons.filter((each) => String(each.entry) === (cell || String(run.leading)));
  return found.length ? found : run.comparisons;
}

// The rows that every understood term of the query keeps, and what is wrong with the others.
function filtered(run, rows, order, query) {
  const { test, faults, hints } = parse(query, run);
  const shown = order.filter((number) => test(rows.at(number)));
  return { shown, faults: shown.length || !rows.length ? faults : [...faults, ...hints] };
}

// A stored picture of a page without a list.
const alone = ({ pair, id }) => ({ id, picture: pictureOf(pair, id), comparison: { pair, entry: "" } });

function addLinks(run) {
  for (const card of document.querySelectorAll(".card[data-id]")) {
    const { pair, id, entry } = card.dataset;
    const target = write({ ...DEFAULTS, page: "image", pair, id, e: entry ?? "" });
    const link = element("a", { href: target, className: "open" }, "Open in the viewer");
    card.querySelector(".facts").append(" · ", link);
    card.querySelector(".stage").addEventListener("click", () => void (location.hash = target));
  }
}

// A cell leads to the images that flipped in it. Without predictions it keeps its link to the table of numbers.
function linkCells(run, panel) {
  for (const link of panel.querySelectorAll(".matrix td a")) {
    const cell = link.hash.replace("#entry-", "");
    if (run?.comparisons.some((each) => String(each.entry) === cell)) {
      link.hash = write({ ...DEFAULTS, page: "images", metric: panel.dataset.metric, cell, q: "flip:yes" });
      link.title = "show the images that changed";
    }
  }
}

// Keys of the page itself: / goes to the filter, w opens the first image shown, m goes to the matrix, ? lists the keys.
function pageKey(event) {
  const typing = /^(INPUT|SELECT|TEXTAREA)$/.test(event.target.tagName);
  const plain = !event.ctrlKey && !event.metaKey && !event.altKey;
  if (typing || !plain || document.querySelector("dialog[open]")) return;
  if (event.key === "?") return showHelp();
  const target = { "/": "#query", w: ".card .open", m: "#matrix" }[event.key];
  const found = target && document.querySelector(target);
  if (!found) return;
  event.preventDefault();
  if (event.key === "m") toMatrix(found);
  else if (event.key === "/") found.focus();
  else found.click();
}

function toMatrix(section) {
  section.scrollIntoView({ behavior: "instant" });
  firstCell()?.focus();
}

function showKeysButton() {
  const button = document.querySelector("header.bar .keys");
  button.hidden = false;
  button.addEventListener("click", showHelp);
}

async function start() {
  const run = self.alignkitRun && (await open(self.alignkitRun));
  addMetrics((panel) => linkCells(run, panel));
  addCopyButtons(document);
  addOrder(document);
  addEventListener("keydown", pageKey);
  showKeysButton();
  const list = document.getElementById("image-list");
  if (!run && list) say("data/run.js is missing next to this page, so the list of images and the viewer cannot open.");
  if (!run) return;
  addLinks(run);
  // a page of pixels alone has no list
  const place = list ?? document.body.appendChild(element("div"));
  render(html`<${App} run=${run}/>`, place);
}

// Tells whoever reads the page why a part of it is not there.
function say(text) {
  const line = element("p", { className: "alert", role: "alert" }, text);
  const list = document.getElementById("image-list");
  if (list) list.before(line);
  else document.querySelector("main").prepend(line);
}

function fail(error) {
  say(`The script of this page failed: ${error.message}`);
  throw error; // the browser's console keeps the trace
}

start().catch(fail);
