// Adds to a page that is whole without it: the list of all images, the viewer, copy buttons.

import { h, render } from "preact";
import { useEffect, useMemo, useState } from "preact/hooks";
import htm from "htm";
import { addCopyButtons } from "./copying.js";
import { read, write, DEFAULTS } from "./link.js";
import { List } from "./list.js";
import { parse, pathsOf } from "./query.js";
import { open, rowsOf, sorted } from "./rows.js";
import { Viewer } from "./viewer.js";

const html = htm.bind(h);

function App({ run }) {
  const [view, setView] = useState(() => complete(run, read(location.hash)) ?? first(run));
  const [rows, setRows] = useState([]);
  const comparison = chosen(run, view);

  useEffect(() => {
    const follow = () => setView((was) => complete(run, read(location.hash)) ?? { ...was, page: "images" });
    addEventListener("hashchange", follow);
    return () => removeEventListener("hashchange", follow);
  }, []);
  useEffect(() => {
    let current = true;
    if (comparison) rowsOf(run, comparison).then((found) => current && setRows(found));
    return () => void (current = false);
  }, [comparison]);
  useEffect(() => {
    if (read(location.hash)?.page === "images") document.getElementById("images").scrollIntoView({ behavior: "instant" });
  }, []);
  const [shown, fault] = useMemo(() => filtered(rows, view), [rows, view.q, view.sort]);

  const go = (next) => {
    history.replaceState(null, "", write(next));
    setView(next);
  };
  const open = (row) => write({ ...view, page: "image", pair: comparison.pair, id: row.id });
  const neighbour = (step) => {
    const kept = shown.filter((row) => row.stored);
    const at = kept.findIndex((row) => row.id === view.id);
    const next = kept[at < 0 ? 0 : at + step];
    if (next) go({ ...view, id: next.id });
  };
  const close = () => go({ ...view, page: "images" });
  const row = comparison?.pair === view.pair ? rows.find((each) => each.id === view.id) : undefined;
  return html`
    ${comparison && html`<${List} run=${run} comparison=${comparison} view=${{ ...view, cell: String(comparison.entry) }} rows=${rows} shown=${shown} fault=${fault} go=${(next) => go({ ...next, page: "images" })} open=${open}/>`}
    ${view.page === "image" && html`<${Viewer} run=${run} view=${view} row=${row} neighbour=${neighbour} go=${go} close=${close}/>`}`;
}

// The comparison that was picked, unless the query asks for paths it does not hold.
function chosen(run, view) {
  const all = run.comparisons;
  const picked = all.find((each) => String(each.entry) === view.cell) ?? all.find((each) => each.pair) ?? all[0];
  const wanted = pathsOf(view.q);
  const holds = (each) => wanted.every((name) => each.paths.includes(name));
  return !picked || holds(picked) ? picked : (all.find(holds) ?? picked);
}

function filtered(rows, view) {
  try {
    return [sorted(rows.filter(parse(view.q)), view.sort), ""];
  } catch (error) {
    return [[], error.message];
  }
}

const first = (run) => complete(run, { ...DEFAULTS, page: "images", pair: "", id: "" });

// A link to an image alone finds the comparison it belongs to.
function complete(run, view) {
  if (!view || view.cell || !view.pair) return view;
  const found = run.comparisons.find((each) => each.pair === view.pair);
  return found ? { ...view, cell: String(found.entry) } : view;
}

function addLinks(run) {
  for (const card of document.querySelectorAll(".card[data-id]")) {
    const { pair, id } = card.dataset;
    const target = write(complete(run, { ...DEFAULTS, page: "image", pair, id }));
    const link = Object.assign(document.createElement("a"), { href: target, textContent: "Open in the viewer" });
    link.className = "open";
    card.append(link);
    card.querySelector(".stage").addEventListener("click", () => void (location.hash = target));
  }
  const known = new Set(run.comparisons.map((each) => String(each.entry)));
  for (const link of document.querySelectorAll(".matrix td a")) {
    const entry = link.hash.replace("#entry-", "");
    if (!known.has(entry)) continue;
    link.hash = write({ ...DEFAULTS, page: "images", cell: entry, q: "flip:yes" });
    link.title = "the images that flipped";
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
  addCopyButtons();
  if (!self.alignkitRun) return;
  const run = await open(self.alignkitRun);
  addLinks(run);
  addEventListener("keydown", pageKey);
  addEventListener("hashchange", () => {
    if (read(location.hash)?.page === "images") document.getElementById("images").scrollIntoView({ behavior: "instant" });
  });
  render(html`<${App} run=${run}/>`, document.getElementById("image-list"));
}

start();
