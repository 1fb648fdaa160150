// The list of the images in one comparison or in all: filtered, sorted, only the visible rows drawn.

import { h } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import htm from "htm";
import { button } from "./copying.js";

const html = htm.bind(h);
const ROW = 34; // px, as the style sheet has it
const SPARE = 12; // rows drawn beyond each edge
const TALLEST = 12e6; // px; Firefox lays out no element taller than 17.9 million

const COLUMNS = [
  ["id", "Image"], ["title", "Comparison"], ["label", "Class"], ["before", "Predicted"], ["flip", "Flip"],
  ["max", "Max |Δ|"], ["mean", "Mean |Δ|"], ["ssim", "SSIM"], ["margin", "Margin"],
];
const NUMERIC = new Set(["max", "mean", "ssim", "margin"]);
const DECIMALS = { max: 1, mean: 3, ssim: 4, margin: 2 };
const FLIPS = { lost: "right → wrong", gained: "wrong → right", moved: "wrong → wrong", changed: "changed" };

export function List({ run, view, chosen, rows, shown, fault, go, open }) {
  const set = (change) => go({ ...view, ...change });
  const only = chosen.length === 1 ? chosen[0] : null;
  const columns = COLUMNS.filter(([key]) => key !== "title" || !only);
  const of = only ? "images" : `rows: ${run.ids.length} images in ${chosen.length} comparisons`;
  return html`<div class="list">
    <div class="tools">
      <label>Comparison <select value=${only?.ref ?? view.cell} onChange=${(e) => set({ cell: e.target.value, ref: "" })}>
        ${only?.ref && html`<option value=${only.ref} selected>${only.title}</option>`}
        <option value="" selected=${!view.cell}>all ${run.comparisons.length} comparisons</option>
        ${grouped(run.comparisons).map(([trained, all]) => html`<optgroup label=${`trained with ${trained}`}>${all.map((each) =>
          html`<option value=${each.entry} selected=${!only?.ref && String(each.entry) === view.cell}>${each.title}</option>`)}</optgroup>`)}
      </select></label>
      <label class="query">Filter <input id="query" type="search" spellcheck=${false} placeholder="flip:lost path:pillow max>8"
        value=${view.q} onInput=${(e) => set({ q: e.target.value })} aria-describedby="query-help"/></label>
      ${only?.command && html`<${CopyCommand} text=${only.command}/>`}
      <output>${fault || `${shown.length} of ${rows.length} ${of}`}</output>
    </div>
    <p id="query-help" class="hint">Terms are combined with AND: flip:yes, no, lost, gained, moved or changed (without labels) · path:, backend:, precision: of the comparison · class:, was:, predicted: · max, mean, ssim, margin or seeds with a number (max${">"}8) · pixels:yes · any part of the file name · prefix ! negates a term · key / focuses the filter, key w opens the worst image</p>
    <${Table} columns=${columns} rows=${rows} shown=${shown} view=${view} set=${set} open=${open}/>
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

function Table({ columns, rows, shown, view, set, open }) {
  const box = useRef();
  const [top, setTop] = useState(0);
  useEffect(() => {
    box.current.scrollTop = 0;
    setTop(0);
  }, [view.cell, view.q, view.sort]);
  const height = box.current?.clientHeight ?? 480;
  const whole = shown.length * ROW;
  const tall = Math.min(whole, TALLEST);
  const body = height - ROW;
  // in a list that would be too tall, a pixel of the scroll bar stands for more than one of the list
  const at = tall > body ? (top * (whole - body)) / (tall - body) : 0;
  const from = Math.max(0, Math.floor(at / ROW) - SPARE);
  const part = [...shown.subarray(from, from + Math.ceil(height / ROW) + 2 * SPARE)];
  const above = top - at + from * ROW;
  const space = (px) => px > 0 && html`<tr aria-hidden="true" style=${{ height: `${px}px` }}><td colspan=${columns.length}></td></tr>`;
  return html`<div class="rows" ref=${box} tabIndex="0" role="region" aria-label="Images" onScroll=${(e) => setTop(e.target.scrollTop)}>
    <table aria-rowcount=${shown.length + 1}>
      <caption class="hidden">Images of the comparison, with their predictions and differences</caption>
      <thead><tr aria-rowindex="1">${columns.map(([key, name]) => html`<${Header} key=${key} name=${name} column=${key} view=${view} set=${set}/>`)}</tr></thead>
      <tbody>
        ${space(above)}
        ${part.map((number, index) => html`<tr key=${number} aria-rowindex=${from + index + 2}>${columns.map(([key]) => cell(rows.at(number), key, open))}</tr>`)}
        ${space(tall - above - part.length * ROW)}
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
