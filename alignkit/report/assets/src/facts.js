// Numbers of an image in the viewer: statistics, predictions, stages, worst blocks, one pixel.

import { useEffect, useState } from "preact/hooks";
import { cached, delta, masked } from "./canvas.js";
import { html } from "./html.js";
import { grouped, percent, plain, written } from "./numbers.js";
import { probe, statistics } from "./pixels.js";
import { chances, ladder } from "./rows.js";
import { absence, nameOf, ofLadder } from "./stages.js";

export const LABELS = { rgb: "RGB", r: "R", g: "G", b: "B", y: "Y", cb: "Cb", cr: "Cr" };
const LADDER = { colour: "final" };

// A name's beginning and end, as alignkit/text/numbers.py shortens it.
export const middle = (name, most) => {
  const end = Math.floor((most - 1) / 2);
  return name.length <= most ? name : `${name.slice(0, most - 1 - end)}…${name.slice(-end)}`;
};

// Returns what a load gives, once it is there; `first` until then and for other arguments.
function useLoaded(load, first, of) {
  const [state, setState] = useState(first);
  useEffect(() => {
    let current = true;
    setState(first);
    load().then((found) => current && setState(found));
    return () => void (current = false);
  }, of);
  return state;
}

export function Facts({ run, view, pair, row, stored, blocks, block, act }) {
  const stages = useLoaded(() => ladder(run, view.pair, view.id), [], [view.pair, view.id]);
  const seeds = row ? chances(run, row) : [];
  const found = pair && !pair.uneven && cached(pair, `statistics ${view.ch}`, () => statistics(delta(pair, view.ch), pair.width * pair.height));
  return html`<aside aria-label="Numbers">
    ${found && html`<dl>
      <dt>Max |Δ|</dt><dd>${written(found.max)}</dd>
      <dt>Mean |Δ|</dt><dd>${plain(found.mean, 3)}</dd>
      <dt>Differing</dt><dd>${percent(found.differing)}</dd>
      <dt>Channels</dt><dd>${LABELS[view.ch]}</dd>
      ${view.m === "mask" && html`<${Count} pair=${pair} view=${view}/>`}</dl>`}
    ${row && seeds.length > 0 && html`<h3>Predictions</h3><p>${row.title}</p><${Predictions} seeds=${seeds}/>`}
    ${stored?.drawn && html`<p>Drawn: ${stored.drawn.of}</p>`}
    ${!row && stored?.flipped && html`<p>Flipped: ${stored.flipped}</p>`}
    ${stages.length > 0 && html`<h3>Stage by stage</h3><table class="ladder"><thead><tr><th scope="col">After</th><th scope="col" class="n">Max |Δ|</th><th scope="col" class="n">Mean |Δ|</th></tr></thead>
      <tbody>${stages.map((each) => html`<tr><th scope="row"><${Step} name=${each.stage} stored=${stored} view=${view} act=${act}/></th><td class="n">${each.max === null ? "–" : written(each.max)}</td><td class="n">${each.mean === null ? "–" : plain(each.mean, 3)}</td></tr>`)}</tbody></table>`}
    ${blocks.length > 0 && html`<h3>Worst blocks</h3><ol class="blocks">${blocks.slice(0, 5).map((each, index) =>
      html`<li><button type="button" aria-pressed=${index === block} onClick=${() => act.block(index - block)}>x ${pair.x + each.x}, y ${pair.y + each.y}: mean ${plain(each.mean, 2)}</button></li>`)}</ol>`}
  </aside>`;
}

// A row of the table leads to its pixels, if the viewer has them.
function Step({ name, stored, view, act }) {
  const source = ofLadder(stored, name);
  if (!source || absence(source, source.stage)) return LADDER[name] ?? name;
  return html`<button type="button" aria-pressed=${source.stage === view.p} onClick=${() => act.set({ p: source.stage, z: 0, c: null })}
    title=${`show the ${nameOf(source.stage).toLowerCase()} pixels`}>${LADDER[name] ?? name}</button>`;
}

function Count({ pair, view }) {
  const { count, share } = masked(pair, view.ch, view.t);
  return html`<dt>Above ${written(view.t)}</dt><dd><output class="count">${grouped(count)} of ${grouped(pair.width * pair.height)} (${percent(share)})</output></dd>`;
}

const gap = (value) => (value === null ? "–" : plain(value, 2));

function Predictions({ seeds }) {
  // kept in thousandths, so that 1 is almost 1
  const answer = (name, [chance, margin] = []) => html`<td><b title=${name}>${middle(name, 30)}</b>${chance != null && ` ${percent(Math.min(chance, 0.9999))}`}${margin !== undefined && html`<br/>margin ${gap(margin)}`}</td>`;
  return html`<table class="chances"><thead><tr><th scope="col">Seed</th><th scope="col">Baseline</th><th scope="col">Here</th></tr></thead>
    <tbody>${seeds.map((each) => html`<tr class=${each.changed ? "changed" : ""}><th scope="row">${each.seed}</th>
      ${answer(each.was, each.before)}${answer(each.is, each.after)}</tr>`)}</tbody></table>`;
}

export function Readout({ pair, channel, at }) {
  const found = probe(pair, channel, ...at);
  const outside = (side) => Number.isNaN(found[side][0]);
  const show = (side, change) => (outside(side) ? "–" : found[side].map((value) => written(value, change)).join(" "));
  return html`<p class="readout">x ${pair.x + at[0]}, y ${pair.y + at[1]} · ${LABELS[channel]} · <b>A</b> ${show("a")} · <b>B</b> ${show("b")} · <b>Δ</b> ${pair.uneven ? "–" : show("delta", true)}</p>`;
}

// The scale of a computed picture, over the corner of the canvas.
export function Legend({ view, pair }) {
  if (!pair || pair.uneven) return null;
  const per = view.ch === "rgb" ? " · each channel in its colour" : "";
  const scale = { abs: ["0", `≥ ${written(255 / view.x)}`], signed: [`≤ ${written(-128 / view.x)}`, `≥ +${written(127 / view.x)}`] }[view.m];
  if (scale) {
    return html`<p class="legend">${view.m === "abs" ? "|B − A|" : "B − A, grey is 0"} <span>${scale[0]}</span><i class="scale"></i><span>${scale[1]} levels${per}</span></p>`;
  }
  if (view.m !== "mask") return null;
  return html`<p class="legend"><i class="above"></i> |Δ| above ${written(view.t)} levels <i class="below"></i> at most ${written(view.t)}: A, darkened</p>`;
}
