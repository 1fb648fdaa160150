// The list of images in one comparison or in all, one row an image: filtered, sorted, only the visible rows drawn.

import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { CopyCommand } from "./copying.js";
import { html } from "./html.js";
import { grouped, plain } from "./numbers.js";
import { rowsOf } from "./rows.js";

const ROW = 40; // px, as the style sheet has it
const SPARE = 12; // rows drawn beyond each edge
const TALLEST = 12e6; // px; Firefox lays out no element taller than 17.9 million

const COLUMNS = [
  ["id", "Image"], ["title", "Comparison"], ["label", "Class"], ["before", "Predicted"], ["seeds", "Flip"],
  ["max", "Max |Δ|"], ["mean", "Mean |Δ|"], ["ssim", "SSIM"], ["margin", "Margin"],
];
const NUMERIC = new Set(["max", "mean", "ssim", "margin"]);
const DESCENDING = new Set([...NUMERIC, "seeds"]); // first
const DECIMALS = { max: 1, mean: 3, ssim: 4, margin: 2 };
const FLIPS = { lost: "right → wrong", gained: "wrong → right", moved: "wrong → wrong", changed: "changed" };

export function List({ run, view, chosen, rows, shown, images, faults, go, open }) {
  const set = (change) => go({ ...view, ...change });
  const only = chosen.length === 1 ? chosen[0] : null;
  const all = run.comparisons.length;
  const rest = only ? "" : `, ${grouped(shown.length)} of ${grouped(rows.length)} rows in ${chosen.length} comparisons`;
  return html`<div class="list">
    <div class="tools">
      <label>Comparison <select value=${only ? only.entry : "all"} onChange=${(e) => set({ cell: e.target.value })}>
        <option value="all" selected=${!only}>all ${all} comparisons</option>
        ${byRow(run.comparisons).map(([trained, some]) => html`<optgroup label=${`trained with ${trained}`}>${some.map((each) =>
          html`<option value=${each.entry} selected=${each === only}>${each.title}</option>`)}</optgroup>`)}
      </select></label>
      <label class="query">Filter <input id="query" type="search" spellcheck=${false} placeholder=${`flip:${run.kinds[1]} path:pillow max>8`}
        value=${view.q} onInput=${(e) => set({ q: e.target.value })} aria-describedby="query-help query-faults" aria-invalid=${faults.length > 0}/></label>
      ${only?.command && html`<${CopyCommand} text=${only.command}/>`}
      <output>${rows.length > 0 && `${grouped(images.length)} of ${grouped(run.ids.length)} images${rest}`}</output>
    </div>
    ${run.choice && html`<p class="lead">${run.choice}</p>`}
    <div id="query-faults" class="faults" role="alert">${faults.map((each) => html`<p>${each}</p>`)}</div>
    <details class="hint"><summary>Terms of the filter</summary><p id="query-help">Terms are combined with AND: flip:yes, no, ${run.kinds.slice(1).join(", ")} (without labels) · path:, backend:, precision: of the comparison · class:, was:, predicted: · max, mean, ssim, margin or seeds with a number (max${">"}8) · pixels:yes · any part of the file name · prefix ! negates a term · key / focuses the filter, key w opens the first image shown above</p></details>
    <${Table} run=${run} only=${only} rows=${rows} images=${images} view=${view} set=${set} open=${open}/>
  </div>`;
}

function byRow(comparisons) {
  const groups = new Map();
  for (const each of comparisons) groups.set(each.trained, [...(groups.get(each.trained) ?? []), each]);
  return [...groups];
}

// The lines of the table: an image's row by its number, then, below an unfolded one, those of its other cells.
function lined(images, unfolded, every, chosen, size) {
  const lines = [];
  for (const number of images) {
    lines.push({ number });
    const index = number % size;
    if (!unfolded.has(index)) continue;
    every.tables.forEach(({ comparison }, place) => {
      if (comparison !== chosen(number)) lines.push({ number: place * size + index, cell: true });
    });
  }
  return lines;
}

function Table({ run, only, rows, images, view, set, open }) {
  const box = useRef();
  const [top, setTop] = useState(0);
  const [every, setEvery] = useState(null); // rows of all comparisons, once an image is unfolded
  const [unfolded, setUnfolded] = useState(() => new Set());
  const columns = COLUMNS.map(([key, name]) => [key, run.heads[key] ?? name]).filter(([key, name]) => name && (key !== "title" || !only));
  useEffect(() => {
    box.current.scrollTop = 0;
    setTop(0);
    setUnfolded(new Set());
  }, [view.cell, view.q, view.sort]);
  const size = run.ids.length;
  const lines = useMemo(
    () => (every && unfolded.size ? lined(images, unfolded, every, (number) => rows.at(number).comparison, size) : null),
    [images, unfolded, every],
  );
  const toggle = async (index) => {
    if (!every) setEvery(await rowsOf(run, run.comparisons));
    setUnfolded((was) => {
      const now = new Set(was);
      if (!now.delete(index)) now.add(index);
      return now;
    });
  };
  const count = (lines ?? images).length;
  const height = box.current?.clientHeight ?? 480;
  const whole = count * ROW;
  const tall = Math.min(whole, TALLEST);
  const body = height - ROW;
  // in a list that would be too tall, a pixel of the scroll bar is more than one of the list
  const at = tall > body ? (top * (whole - body)) / (tall - body) : 0;
  const from = Math.max(0, Math.floor(at / ROW) - SPARE);
  const to = from + Math.ceil(height / ROW) + 2 * SPARE;
  const part = lines ? lines.slice(from, to) : [...images.subarray(from, to)].map((number) => ({ number }));
  const above = top - at + from * ROW;
  const space = (px) => px > 0 && html`<tr aria-hidden="true" style=${{ height: `${px}px` }}><td colspan=${columns.length}></td></tr>`;
  return html`<div class="rows" ref=${box} tabIndex="0" role="region" aria-label="List of images" onScroll=${(e) => setTop(e.target.scrollTop)}>
    <table aria-rowcount=${count + 1}>
      <caption class="hidden">Images, with their predictions and differences in a comparison</caption>
      <thead><tr aria-rowindex="1">${columns.map(([key, name]) => html`<${Header} key=${key} name=${name} column=${key} view=${view} set=${set}/>`)}</tr></thead>
      <tbody>
        ${space(above)}
        ${part.map(({ number, cell }, index) => {
          const row = (cell ? every : rows).at(number);
          const fold = !cell && run.comparisons.length > 1 && { open: unfolded.has(row.index), toggle: () => toggle(row.index) };
          return html`<tr key=${`${cell ? "cell" : ""}${number}`} class=${cell ? "cell" : ""} aria-rowindex=${from + index + 2}>${columns.map(([key]) => drawn(row, key, open, fold, cell))}</tr>`;
        })}
        ${space(tall - above - part.length * ROW)}
      </tbody>
    </table>
  </div>`;
}

function Header({ name, column, view, set }) {
  const [down, up] = [`-${column}`, column];
  const state = view.sort === down ? "descending" : view.sort === up ? "ascending" : "none";
  const next = state === "descending" || (state === "none" && !DESCENDING.has(column)) ? up : down;
  const sortable = column !== "before";
  return html`<th scope="col" aria-sort=${state} class=${NUMERIC.has(column) ? "n" : ""}>${sortable
    ? html`<button type="button" onClick=${() => set({ sort: next })}>${name}${state === "none" ? "" : state === "ascending" ? " ▲" : " ▼"}</button>`
    : name}</th>`;
}

function drawn(row, key, open, fold, cell) {
  if (key === "id") return html`<th scope="row"><${Name} row=${row} href=${open(row)} fold=${fold} cell=${cell}/></th>`;
  if (key === "before") return html`<td title=${predictions(row)}>${predictions(row)}</td>`;
  if (key === "seeds") return html`<td>${row.flip && html`<span class=${`flip ${row.flip}`}>${FLIPS[row.flip] ?? row.flip}</span>`}</td>`;
  if (NUMERIC.has(key)) return html`<td class="n">${row[key] === null ? "–" : plain(row[key], DECIMALS[key])}</td>`;
  return html`<td>${row[key]}</td>`;
}

// The name opens the image; before it, small pictures of A, B and their difference where the run kept them.
function Name({ row, href, fold, cell }) {
  return html`<span class="name">
    ${fold && html`<button type="button" class="fold" aria-expanded=${fold.open} aria-label=${`Other cells of ${row.id}`} onClick=${fold.toggle}>${fold.open ? "▾" : "▸"}</button>`}
    <span class="thumbs">${!cell && row.kept?.pictures.map((src) => html`<img key=${src} src=${src} alt="" width="28" height="28" loading="lazy" decoding="async"/>`)}</span>
    <a href=${href} title=${row.id}>${cell ? row.title : row.id}</a></span>`;
}

function predictions({ before, after, seeds, turns }) {
  if (!before.length) return "–";
  if (!seeds) return [...new Set(before)].join(", ");
  const changes = before.map((was, k) => turns[k] && (was === after[k] ? was : `${was} → ${after[k]}`)).filter(Boolean);
  const share = before.length > 1 ? ` (${seeds} of ${before.length} seeds)` : "";
  return [...new Set(changes)].join(", ") + share;
}
