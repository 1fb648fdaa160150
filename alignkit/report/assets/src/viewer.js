// The image viewer: a dialog over the page.

import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import { ANSWERS } from "./answers.js";
import { BLOCK_ZOOM, cached, centreOf, delta, draw, within, zoomOf } from "./canvas.js";
import { quoted } from "./copying.js";
import { element } from "./element.js";
import { Facts, LABELS, Legend, Readout, middle } from "./facts.js";
import { Help } from "./help.js";
import { html } from "./html.js";
import { GRIDS, MODES, command } from "./keys.js";
import { write } from "./link.js";
import { plain, written } from "./numbers.js";
import { CHANNELS, GAINS, clamp, ninetieth, suitableGain, worstBlocks } from "./pixels.js";
import { pointing, zoomBy } from "./pointing.js";
import { pictureOf } from "./rows.js";
import { absence, described, nameOf, stagesOf } from "./stages.js";
import { loadPair } from "./unpack.js";

const BLINK = 600; // ms a side is shown

export function Viewer({ run, view: asked, row, neighbour, go, close }) {
  const stored = run.storedBy.get(pictureOf(asked.pair, asked.id));
  const stages = stored ? stagesOf(stored) : [];
  const source = stages.find((each) => each.stage === asked.p);
  const [pair, fault] = usePair(stored, source, asked.p);
  const view = completed(asked, pair);
  const [block, setBlock] = useState(-1);
  const [hover, setHover] = useState(null);
  const [held, setHeld] = useState(false);
  const [help, setHelp] = useState(false);
  const [said, setSaid] = useState("");
  const dialog = useRef();
  const canvas = useRef();
  const lit = useBlink(view, held);
  const maps = view.o !== "none" && stored?.drawn?.maps[source?.stage];
  const repeat = run.commands[view.pair] && run.commands[view.pair] + quoted(view.id);
  const down = useRef(new Map());
  const blocks = pair && !pair.uneven && !pair.alike ? cached(pair, `blocks ${view.ch}`, () => worstBlocks(pair, delta(pair, view.ch))) : [];

  // before the frame is drawn: until it is modal, Esc would close what lies below
  useLayoutEffect(() => {
    dialog.current.showModal();
    canvas.current.focus();
  }, []);
  useEffect(() => setBlock(-1), [pair, view.ch]);
  useEffect(() => setHover(null), [pair]);
  const redraw = () => {
    const answers = maps && { drawn: stored.drawn, maps, colours: run.colours, mode: view.o, again: redraw };
    if (pair && canvas.current) draw(canvas.current, pair, view, { lit, block: blocks[block], grid: view.g && gridOf(view.g, source), answers });
    else if (fault) canvas.current.width = 0; // else the image before stays in sight under this one's name
  };
  useLayoutEffect(redraw);
  useResize(canvas, redraw);

  const act = {
    set: (change) => go({ ...asked, ...change, ...(change.c && { c: centreOf(pair, change) }) }),
    zoom: (factor) => pair && zoomBy(canvas.current, pair, view, factor, act.set),
    pan: (dx, dy) => {
      const [x, y] = centreOf(pair, view).map((at) => Math.floor(at) + 0.5);
      act.set({ c: [x + dx, y + dy] });
    },
    block: (step) => {
      if (!blocks.length) return; // two sizes have no differences
      const next = clamp(block + step, 0, blocks.length - 1);
      const { x, y, width, height } = blocks[next];
      const zoom = Math.max(zoomOf(canvas.current, pair, view), BLOCK_ZOOM);
      setBlock(next);
      act.set({ c: within(canvas.current, pair, view, zoom, [x + width / 2, y + height / 2]), z: zoom });
    },
    stage: (step) => {
      const next = stages[(stages.indexOf(source) + step + stages.length) % stages.length];
      if (next) act.set({ p: next.stage, z: 0, c: null });
    },
    image: (step) => neighbour(step),
    hold: setHeld,
    help: () => setHelp(true),
    copy: () => copy("Link", new URL(write(asked), location.href).href, setSaid),
    save: () => pair && save(canvas.current, [view.id, view.p || "final", view.m].join("-")),
    reproduce: () => repeat && copy("Command", repeat, setSaid),
  };
  const onKey = (event) => {
    const always = ["j", "k", "s", "S", "r", "y", "?"].includes(event.key); // an image without pixels is left by them
    if (help || (!pair && !always)) return;
    if (command(event, view, act)) event.preventDefault();
  };
  const at = hover ?? (pair ? centreOf(pair, view).map(Math.floor) : null);
  return html`<dialog class="viewer" ref=${dialog} aria-label="Image viewer" onClose=${close}
    onKeyDown=${onKey} onKeyUp=${(event) => [" ", "b"].includes(event.key) && setHeld(false)}>
    <header>
      <h2 title=${view.id}>${middle(view.id, 60)}</h2>
      <p>${stored ? `A ${stored.reference}, B ${stored.candidate}` : ""}${pair ? ` · ${described(source)}` : ""}${row?.label ? html` · label <span title=${row.label}>${middle(row.label, 30)}</span>` : ""}</p>
      <${Button} onClick=${() => act.image(-1)} label="Previous" hint="k"/>
      <${Button} onClick=${() => act.image(1)} label="Next" hint="j"/>
      <${Button} onClick=${act.copy} label="Copy link" hint="y"/>
      ${repeat && html`<${Button} onClick=${act.reproduce} label="Copy command" hint="r"/>`}
      <${Button} onClick=${act.save} label="Save PNG" hint="d"/>
      <${Button} onClick=${act.help} label="Keys" hint="?"/>
      <${Button} onClick=${() => dialog.current.close()} label="Close" hint="Esc"/>
    </header>
    <${Tools} view=${view} drawn=${stored?.drawn} pair=${pair} stages=${stages} source=${source} act=${act} canvas=${canvas} lit=${lit}/>
    <div class="body">
      <div class="picture"><canvas ref=${canvas} tabIndex="0" role="img" aria-label=${pictureText(view, stored)}
        ...${pair ? pointing(canvas, pair, view, act, setHover, down.current) : {}}></canvas>
      ${fault && html`<p class="fault" role="alert">${fault}</p>`}
      <${Legend} view=${view} pair=${pair}/></div>
      <${Facts} run=${run} view=${view} pair=${pair} row=${row} stored=${stored} blocks=${blocks} block=${block} act=${act}/>
    </div>
    <footer>
      ${pair && at && html`<${Readout} pair=${pair} channel=${view.ch} at=${at}/>`}
      <output>${said}</output>
    </footer>
    ${help && html`<${Help} close=${() => setHelp(false)}/>`}
  </dialog>`;
}

const Button = ({ label, hint, pressed, onClick }) =>
  html`<button type="button" aria-pressed=${pressed} title=${hint && `key ${hint}`} onClick=${onClick}>${label}</button>`;

// A view with what suits the image where the link leaves it open.
function completed(asked, pair) {
  const { ch } = asked;
  const view = { ...asked, m: (pair?.uneven || pair?.alike) && !["a", "b", "blink", "swipe"].includes(asked.m) ? "side" : asked.m };
  if (pair && !view.x) view.x = cached(pair, "gain", () => suitableGain(delta(pair, "rgb")));
  if (pair && view.t < 0) view.t = cached(pair, `level ${ch}`, () => ninetieth(delta(pair, ch), pair.width * pair.height));
  return { ...view, x: view.x || 1, t: Math.max(view.t, 0) };
}

// Cells of a grid, (width, height); null where they mean nothing: after a resize, and without JPEG blocks.
const gridOf = (grid, source) => (grid && source?.mcu ? (grid === "8" ? [8, 8] : source.mcu) : null);

function Tools({ view, drawn, pair, stages, source, act, canvas, lit }) {
  const pick = (name, key, options, words = (each) => each) => html`<label>${name}
    <select value=${view[key]} onChange=${(e) => act.set({ [key]: typeof view[key] === "number" ? Number(e.target.value) : e.target.value })}>
      ${options.map((each) => html`<option value=${each} selected=${each === view[key]}>${words(each)}</option>`)}
    </select></label>`;
  const range = (name, key, most, step, words = (each) => each) => html`<label>${name} <input type="range" min="0" max=${most} step=${step}
    value=${view[key]} onInput=${(e) => act.set({ [key]: Number(e.target.value) })}/> ${words(view[key])}</label>`;
  const ofMode = {
    side: () => "A left, B right",
    swipe: () => range("Divider", "s", 100, 1),
    onion: () => range("B over A", "s", 100, 1),
    abs: () => pick("Amplify", "x", GAINS, (gain) => `×${gain}`),
    signed: () => pick("Amplify", "x", GAINS, (gain) => `×${gain}`),
    mask: () => range("T", "t", 255, 1, written),
  }[view.m];
  return html`<div class="tools" role="group" aria-label="View">
    ${stages.length > 1 && html`<span class="modes" role="group" aria-label="Stage">${stages.map((each) =>
      html`<${Button} label=${labelled(each)} hint="s" pressed=${each === source} onClick=${() => act.set({ p: each.stage, z: 0, c: null })}/>`)}</span>`}
    <span class="modes">${MODES.map(([mode, name], index) =>
      html`<${Button} label=${name} hint=${index + 1} pressed=${view.m === mode} onClick=${() => act.set({ m: mode })}/>`)}</span>
    ${pick("Channels", "ch", CHANNELS, (each) => LABELS[each])}
    ${pair && source?.mcu && pick("Grid", "g", GRIDS, (grid) => ({ "": "none", 8: "8×8", mcu: `MCU ${source.mcu.join("×")}` })[grid])}
    ${drawn && pick("Answers", "o", ANSWERS, (each) => ({ own: "each on its side", both: "A and B", truth: "with the truth" })[each] ?? each)}
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

const labelled = ({ stage, state }) => nameOf(stage) + ({ identical: ": identical", "left out": ": not kept" }[state] ?? "");

function pictureText(view, stored) {
  const mode = MODES.find(([mode]) => mode === view.m)?.[1] ?? view.m;
  return `${mode} of ${view.id}${stored?.mean == null ? "" : `, mean difference of the final pixels ${plain(stored.mean, 2)}`}; arrow keys move, ? lists the keys`;
}

// The pixels of a stage, or why there are none; of another image's, neither.
function usePair(stored, source, stage) {
  const [state, setState] = useState({});
  const why = stored ? absence(source, stage) : "The pixels of this image were not stored.";
  const script = why ? "" : source.script;
  useEffect(() => {
    if (!script) return undefined;
    let current = true;
    loadPair(source).then(
      (pair) => current && setState({ script, pair }),
      (error) => current && setState({ script, fault: error.message }),
    );
    return () => void (current = false);
  }, [script]);
  if (!script) return [null, why];
  return state.script === script ? [state.pair ?? null, state.fault ?? ""] : [null, ""];
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
  // an effect after the paint would watch on after the canvas is gone
  useLayoutEffect(() => {
    const observer = new ResizeObserver(() => latest.current());
    observer.observe(canvas.current);
    return () => observer.disconnect();
  }, []);
}

async function copy(what, text, say) {
  try {
    await navigator.clipboard.writeText(text); // without https there is no clipboard
    say(`${what} copied`);
  } catch {
    say(`The browser blocked copying; copy it from here: ${text}`);
  }
}

function save(canvas, name) {
  canvas.toBlob((blob) => {
    const link = element("a", { href: URL.createObjectURL(blob), download: `${name.replace(/[^\w.-]+/g, "_")}.png` });
    link.click();
    URL.revokeObjectURL(link.href);
  });
}
