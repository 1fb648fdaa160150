// The image viewer: a dialog over the page.

import { h } from "preact";
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import htm from "htm";
import { MOST_ZOOM, cached, centreOf, draw, masked, pixelAt, written, zoomOf } from "./canvas.js";
import { quoted } from "./copying.js";
import { GRIDS, HELP, MODES, command } from "./keys.js";
import { write } from "./link.js";
import { CHANNELS, GAINS, clamp, probe, statistics, worstBlocks } from "./pixels.js";
import { ladder, pictureOf } from "./rows.js";
import { loadPair } from "./unpack.js";

const html = htm.bind(h);

const LABELS = { rgb: "RGB", r: "R", g: "G", b: "B", y: "Y", cb: "Cb", cr: "Cr" };
const BLINK = 600; // ms a side is shown

export function Viewer({ run, view: asked, row, neighbour, go, close }) {
  const stored = run.storedBy.get(pictureOf(asked.pair, asked.id));
  const view = { ...asked, x: asked.x || stored?.amplification || 1 };
  const [pair, fault] = usePair(stored);
  const [block, setBlock] = useState(-1);
  const [hover, setHover] = useState(null);
  const [held, setHeld] = useState(false);
  const [help, setHelp] = useState(false);
  const [said, setSaid] = useState("");
  const dialog = useRef();
  const canvas = useRef();
  const lit = useBlink(view, held);
  const repeat = run.commands[view.pair] && run.commands[view.pair] + quoted(view.id);
  const blocks = pair ? cached(pair, `blocks ${view.ch}`, () => worstBlocks(pair, view.ch)) : [];

  // before the frame is drawn: until it is modal, Esc would close what lies below
  useLayoutEffect(() => {
    dialog.current.showModal();
    canvas.current.focus();
  }, []);
  useEffect(() => setBlock(-1), [view.id, view.pair, view.ch]);
  useEffect(() => setHover(null), [pair]);
  const redraw = () => {
    if (pair) draw(canvas.current, pair, view, { lit, block: blocks[block] });
    else if (fault) canvas.current.width = 0; // else the image before stays in sight under this one's name
  };
  useLayoutEffect(redraw);
  useResize(canvas, redraw);

  const act = {
    set: (change) => go({ ...asked, ...change, ...(change.c && { c: centreOf(pair, change) }) }),
    zoom: (factor) => zoomBy(canvas.current, pair, view, factor, act.set),
    pan: (dx, dy) => {
      const [x, y] = centreOf(pair, view).map((at) => Math.floor(at) + 0.5);
      act.set({ c: [x + dx, y + dy] });
    },
    block: (step) => {
      const next = clamp(block + step, 0, blocks.length - 1);
      const { x, y, width, height } = blocks[next];
      setBlock(next);
      act.set({ c: [x + width / 2, y + height / 2], z: view.z || zoomOf(canvas.current, pair, view) });
    },
    image: (step) => neighbour(step),
    hold: setHeld,
    help: () => setHelp(true),
    copy: () => copy("Link", new URL(write(asked), location.href).href, setSaid),
    reproduce: () => repeat && copy("Command", repeat, setSaid),
  };
  const onKey = (event) => {
    if (help || !pair) return;
    if (command(event, view, act)) event.preventDefault();
  };
  const at = hover ?? (pair ? centreOf(pair, view).map(Math.floor) : null);
  return html`<dialog class="viewer" ref=${dialog} aria-label="Image viewer" onClose=${close}
    onKeyDown=${onKey} onKeyUp=${(event) => [" ", "b"].includes(event.key) && setHeld(false)}>
    <header>
      <h2>${view.id}</h2>
      <p>${stored ? `A ${stored.reference}, B ${stored.candidate}, after ${stored.stage}` : ""}${row?.label ? ` · label ${row.label}` : ""}</p>
      <span class="spacer"></span>
      <${Button} onClick=${() => act.image(-1)} label="Previous" hint="k"/>
      <${Button} onClick=${() => act.image(1)} label="Next" hint="j"/>
      <${Button} onClick=${act.copy} label="Copy link" hint="y"/>
      ${repeat && html`<${Button} onClick=${act.reproduce} label="Copy command" hint="r"/>`}
      <${Button} onClick=${act.help} label="Keys" hint="?"/>
      <${Button} onClick=${() => dialog.current.close()} label="Close" hint="Esc"/>
    </header>
    <${Tools} view=${view} pair=${pair} act=${act} canvas=${canvas} lit=${lit}/>
    <div class="body">
      <canvas ref=${canvas} tabIndex="0" role="img" aria-label=${pictureText(view, stored)}
        ...${pair ? pointing(canvas, pair, view, act, setHover) : {}}></canvas>
      <${Facts} run=${run} view=${view} pair=${pair} row=${row} stored=${stored} blocks=${blocks} block=${block} act=${act}/>
    </div>
    <footer>
      ${fault && html`<p class="fault" role="alert">${fault}</p>`}
      ${pair && at && html`<${Readout} pair=${pair} channel=${view.ch} at=${at}/>`}
      <output>${said}</output>
    </footer>
    ${help && html`<${Help} close=${() => setHelp(false)}/>`}
  </dialog>`;
}

const Button = ({ label, hint, pressed, onClick }) =>
  html`<button type="button" aria-pressed=${pressed} title=${hint && `key ${hint}`} onClick=${onClick}>${label}</button>`;

function Tools({ view, pair, act, canvas, lit }) {
  const pick = (name, key, options, words = (each) => each) => html`<label>${name}
    <select value=${view[key]} onChange=${(e) => act.set({ [key]: typeof view[key] === "number" ? Number(e.target.value) : e.target.value })}>
      ${options.map((each) => html`<option value=${each} selected=${each === view[key]}>${words(each)}</option>`)}
    </select></label>`;
  const range = (name, key, most, step) => html`<label>${name} <input type="range" min="0" max=${most} step=${step}
    value=${view[key]} onInput=${(e) => act.set({ [key]: Number(e.target.value) })}/> ${view[key]}</label>`;
  const ofMode = {
    side: () => "A left, B right",
    swipe: () => range("Divider", "s", 100, 1),
    onion: () => range("B over A", "s", 100, 1),
    abs: () => pick("Amplify", "x", GAINS, (gain) => `×${gain}`),
    signed: () => pick("Amplify", "x", GAINS, (gain) => `×${gain}`),
    mask: () => range("T", "t", 64, 1),
  }[view.m];
  return html`<div class="tools" role="group" aria-label="View">
    <span class="modes">${MODES.map(([mode, name], index) =>
      html`<${Button} label=${name} hint=${index + 1} pressed=${view.m === mode} onClick=${() => act.set({ m: mode })}/>`)}</span>
    ${pick("Channels", "ch", CHANNELS, (each) => LABELS[each])}
    ${pick("Grid", "g", GRIDS, (step) => (step ? `${step}×${step}` : "none"))}
    <span class="modes">
      <${Button} label="−" hint="-" onClick=${() => act.zoom(0.5)}/>
      <${Button} label=${pair && canvas.current ? `${+zoomOf(canvas.current, pair, view).toFixed(2)}×` : "fit"} hint="0" onClick=${() => act.set({ z: 0, c: null })}/>
      <${Button} label="+" hint="+" onClick=${() => act.zoom(2)}/>
    </span>
    <span class="of-mode">
      ${lit ? `shows ${lit.toUpperCase()}` : ofMode?.()}
    </span>
  </div>`;
}

function Count({ pair, view }) {
  const { count, share } = masked(pair, view.ch, view.t);
  return html`<dt>Above ${view.t}</dt><dd><output class="count">${count} of ${pair.width * pair.height} (${(100 * share).toFixed(1)}\u00a0%)</output></dd>`;
}

function Facts({ run, view, pair, row, stored, blocks, block, act }) {
  const [stages, setStages] = useState([]);
  useEffect(() => void ladder(run, view.pair, view.id).then(setStages), [view.pair, view.id]);
  const found = pair && cached(pair, `statistics ${view.ch}`, () => statistics(pair, view.ch));
  return html`<aside>
    ${found && html`<dl>
      <dt>Max |Δ|</dt><dd>${written(found.max)}</dd>
      <dt>Mean |Δ|</dt><dd>${found.mean.toFixed(3)}</dd>
      <dt>Differing</dt><dd>${(100 * found.differing).toFixed(1)} %</dd>
      <dt>Channels</dt><dd>${LABELS[view.ch]}</dd>
      ${view.m === "mask" && html`<${Count} pair=${pair} view=${view}/>`}</dl>`}
    ${row && row.before.length > 0 && html`<h3>Predictions</h3><p>${row.title}</p>
      <ul>${row.before.map((was, seed) => html`<li>${was === row.after[seed] ? `${was}, unchanged` : `${was} → ${row.after[seed]}`}</li>`)}</ul>`}
    ${!row && stored?.flipped && html`<p>Flipped: ${stored.flipped}</p>`}
    ${stages.length > 0 && html`<h3>Stage by stage</h3><table><thead><tr><th scope="col">Stage</th><th scope="col" class="n">Max</th><th scope="col" class="n">Mean</th></tr></thead>
      <tbody>${stages.map((each) => html`<tr><th scope="row">${each.stage}</th><td class="n">${each.max === null ? "–" : written(each.max)}</td><td class="n">${each.mean === null ? "–" : each.mean.toFixed(3)}</td></tr>`)}</tbody></table>`}
    ${blocks.length > 0 && html`<h3>Worst blocks</h3><ol class="blocks">${blocks.slice(0, 5).map((each, index) =>
      html`<li><button type="button" aria-pressed=${index === block} onClick=${() => act.block(index - block)}>x ${each.x}, y ${each.y}: mean ${each.mean.toFixed(2)}</button></li>`)}</ol>`}
  </aside>`;
}

function Readout({ pair, channel, at }) {
  const found = probe(pair, channel, ...at);
  const show = (side, change) => found[side].map((value) => written(value, change)).join(" ");
  return html`<p class="readout">x ${at[0]}, y ${at[1]} · ${LABELS[channel]} · <b>A</b> ${show("a")} · <b>B</b> ${show("b")} · <b>Δ</b> ${show("delta", true)}</p>`;
}

function Help({ close }) {
  const dialog = useRef();
  useLayoutEffect(() => dialog.current.showModal(), []);
  return html`<dialog class="help" ref=${dialog} aria-label="Keys" onClose=${close} onKeyDown=${(event) => event.stopPropagation()}>
    <h2>Keys</h2>
    <table><tbody>${HELP.map(([keys, what]) => html`<tr><th scope="row">${keys}</th><td>${what}</td></tr>`)}</tbody></table>
    <button type="button" onClick=${() => dialog.current.close()}>Close</button>
  </dialog>`;
}

function pictureText(view, stored) {
  const mode = MODES.find(([mode]) => mode === view.m)?.[1] ?? view.m;
  return `${mode} of ${view.id}${stored ? `, mean difference ${stored.mean.toFixed(2)}` : ""}; arrow keys move, ? lists the keys`;
}

function zoomBy(canvas, pair, view, factor, set, anchor = null) {
  const before = zoomOf(canvas, pair, view);
  const after = clamp(factor > 1 ? Math.max(before * factor, 1) : before * factor, 0.05, MOST_ZOOM);
  const zoom = after >= 1 ? Math.round(after) : after;
  const centre = centreOf(pair, view);
  // the pixel under the pointer stays under it
  const c = anchor ? centre.map((at, k) => anchor[k] + ((at - anchor[k]) * before) / zoom) : centre;
  set({ z: zoom, c });
}

function pointing(canvas, pair, view, act, setHover) {
  return {
    onPointerMove: (event) => {
      if (event.buttons & 1) {
        if (view.m === "swipe" && event.shiftKey) {
          act.set({ s: Math.round((100 * event.offsetX) / canvas.current.clientWidth) });
        } else {
          const zoom = zoomOf(canvas.current, pair, view);
          const [x, y] = centreOf(pair, view);
          act.set({ c: [x - event.movementX / zoom, y - event.movementY / zoom], z: zoom });
        }
      }
      setHover(pixelAt(canvas.current, pair, view, event.clientX, event.clientY));
    },
    onPointerDown: (event) => canvas.current.setPointerCapture(event.pointerId),
    onPointerLeave: () => setHover(null),
    onWheel: (event) => {
      event.preventDefault();
      const at = pixelAt(canvas.current, pair, view, event.clientX, event.clientY);
      zoomBy(canvas.current, pair, view, event.deltaY < 0 ? 1.25 : 0.8, act.set, at);
    },
  };
}

function usePair(stored) {
  const [state, setState] = useState([null, ""]);
  useEffect(() => {
    let current = true;
    setState([null, stored ? "" : "The pixels of this image were not stored; only those of the worst images are."]);
    if (stored) {
      loadPair(stored).then(
        (pair) => current && setState([pair, ""]),
        (error) => current && setState([null, error.message]),
      );
    }
    return () => void (current = false);
  }, [stored]);
  return state;
}

// The side that alone is shown: while a key is held, or as a blink alternates.
function useBlink(view, held) {
  const [second, setSecond] = useState(false);
  const still = matchMedia("(prefers-reduced-motion: reduce)").matches;
  useEffect(() => {
    if (view.m !== "blink" || still) return undefined;
    const timer = setInterval(() => setSecond((was) => !was), BLINK);
    return () => clearInterval(timer);
  }, [view.m]);
  if (held) return view.m === "a" || (view.m === "blink" && still) ? "b" : "a";
  if (view.m === "blink") return second && !still ? "b" : "a";
  return "";
}

function useResize(canvas, redraw) {
  const latest = useRef();
  latest.current = redraw;
  useEffect(() => {
    const observer = new ResizeObserver(() => latest.current());
    observer.observe(canvas.current);
    return () => observer.disconnect();
  }, []);
}

function copy(what, text, say) {
  navigator.clipboard.writeText(text).then(
    () => say(`${what} copied`),
    () => say(`The browser blocked copying; copy it from here: ${text}`),
  );
}
