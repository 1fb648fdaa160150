// The list of all images of one comparison: filtered, sorted, only the visible rows drawn.

import { h } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import htm from "htm";
import { button } from "./copying.js";

const html = htm.bind(h);
const ROW = 34; // px, as the style sheet has it
const SPARE = 12; // rows drawn beyond each edge

const COLUMNS = [
  ["id", "Image"], ["label", "Class"], ["before", "Predicted"], ["flip", "Flip"],
  ["max", "Max |Δ|"], ["mean", "Mean |Δ|"], ["ssim", "SSIM"], ["margin", "Margin"],
];
const NUMERIC = new Set(["max", "mean", "ssim", "margin"]);
const DECIMALS = { max: 1, mean: 3, ssim: 4, margin: 2 };
export const FLIPS = { lost: "right → wrong", gained: "wrong → right", moved: "wrong → wrong" };

export function List({ run, view, comparison, rows, shown, fault, go, open }) {
  const set = (change) => go({ ...view, ...change });
  const groups = Map.groupBy ? [...Map.groupBy(run.comparisons, (each) => each.trained)] : grouped(run.comparisons);
  return html`<div class="list">
    <div class="tools">
      <label>Comparison <select value=${view.cell} onChange=${(e) => set({ cell: e.target.value })}>
        ${groups.map(([trained, all]) => html`<optgroup label=${`trained with ${trained}`}>${all.map((each) =>
          html`<option value=${each.entry} selected=${String(each.entry) === view.cell}>${each.title}</option>`)}</optgroup>`)}
      </select></label>
      <label class="query">Filter <input id="query" type="search" spellcheck=${false} placeholder="flip:lost class:7 max>8"
        value=${view.q} onInput=${(e) => set({ q: e.target.value })} aria-describedby="query-help"/></label>
      ${comparison.command && html`<${CopyCommand} text=${comparison.command}/>`}
      <output>${fault || `${shown.length} of ${rows.length} images`}</output>
    </div>
    <p id="query-help" class="hint">Terms: flip:yes, no, lost, gained or moved · class:, was:, predicted: · path: goes to a comparison with that path · max, mean, ssim, margin, seeds compared with a number (max${">"}8) · pixels:yes · any word of the file name · ! turns a term round · key / comes here, key w opens the worst image</p>
    <${Rows} shown=${shown} view=${view} set=${set} open=${open} run=${run}/>
  </div>`;
}

// Runs the comparison alone.
function CopyCommand({ text }) {
  const holder = useRef();
  useEffect(() => holder.current.replaceChildren(button("Copy command", () => text)), [text]);
  return html`<span ref=${holder}></span>`;
}

function grouped(comparisons) {
  const groups = new Map();
  for (const each of comparisons) groups.set(each.trained, [...(groups.get(each.trained) ?? []), each]);
  return [...groups];
}

function Rows({ shown, view, set, open }) {
  const box = useRef();
  const [top, setTop] = useState(0);
  useEffect(() => {
    box.current.scrollTop = 0;
    setTop(0);
  }, [view.cell, view.q, view.sort]);
  const height = box.current?.clientHeight ?? 480;
  const from = Math.max(0, Math.floor(top / ROW) - SPARE);
  const part = shown.slice(from, from + Math.ceil(height / ROW) + 2 * SPARE);
  return html`<div class="rows" ref=${box} tabIndex="0" role="region" aria-label="Images" onScroll=${(e) => setTop(e.target.scrollTop)}>
    <table aria-rowcount=${shown.length + 1}>
      <caption class="hidden">Images of the comparison, with their predictions and differences</caption>
      <thead><tr aria-rowindex="1">${COLUMNS.map(([key, name]) => html`<${Header} key=${key} name=${name} column=${key} view=${view} set=${set}/>`)}</tr></thead>
      <tbody>
        ${from > 0 && html`<tr aria-hidden="true" style=${{ height: `${from * ROW}px` }}><td colspan=${COLUMNS.length}></td></tr>`}
        ${part.map((row, index) => html`<tr key=${row.id} aria-rowindex=${from + index + 2}>${COLUMNS.map(([key]) => cell(row, key, open))}</tr>`)}
        ${from + part.length < shown.length && html`<tr aria-hidden="true" style=${{ height: `${(shown.length - from - part.length) * ROW}px` }}><td colspan=${COLUMNS.length}></td></tr>`}
      </tbody>
    </table>
  </div>`;
}

function Header({ name, column, view, set }) {
  const [down, up] = [`-${column}`, column];
  const state = view.sort === down ? "descending" : view.sort === up ? "ascending" : "none";
  const next = state === "descending" || (state === "none" && !NUMERIC.has(column)) ? up : down;
  const sortable = column !== "before";
  return html`<th scope="col" aria-sort=${state} class=${NUMERIC.has(column) ? "n" : ""}>${sortable
    ? html`<button type="button" onClick=${() => set({ sort: next })}>${name}${state === "none" ? "" : state === "ascending" ? " ▲" : " ▼"}</button>`
    : name}</th>`;
}

function cell(row, key, open) {
  if (key === "id") {
    return html`<th scope="row">${row.stored ? html`<a href=${open(row)}>${row.id}</a>` : row.id}</th>`;
  }
  if (key === "before") return html`<td>${predictions(row)}</td>`;
  if (key === "flip") return html`<td>${row.flip && html`<span class=${`flip ${row.flip}`}>${FLIPS[row.flip]}</span>`}</td>`;
  if (NUMERIC.has(key)) return html`<td class="n">${row[key] === null ? "–" : row[key].toFixed(DECIMALS[key])}</td>`;
  return html`<td>${row[key]}</td>`;
}

function predictions({ before, after, seeds }) {
  if (!before.length) return "–";
  if (!seeds) return [...new Set(before)].join(", ");
  const changes = before.map((was, k) => (was === after[k] ? "" : `${was} → ${after[k]}`)).filter(Boolean);
  return `${[...new Set(changes)].join(", ")} (${seeds} of ${before.length} seeds)`;
}
