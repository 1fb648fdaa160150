// Draws a pair into a canvas: every mode shares one position and zoom.

import { drawAnswers } from "./answers.js";
import { painted } from "./element.js";
import { written } from "./numbers.js";
import { absolute, between, clamp, difference, mask, picture, probe, signed, values } from "./pixels.js";

export const MOST_ZOOM = 96;
export const BLOCK_ZOOM = 24; // at least, for a worst block
const VALUES_FROM = 32; // device pixels a pixel needs before its numbers fit
const INKS = ["#ffa8a8", "#a8ffa8", "#a8ccff"]; // of R, G and B
const KEPT = 24; // of the image that is shown; each may be as large as it
let made = { pair: null, results: new Map() };

// Returns what `make` gives, made once as long as the image is shown.
export function cached(pair, key, make) {
  if (made.pair !== pair) made = { pair, results: new Map() };
  const { results } = made;
  if (!results.has(key)) {
    if (results.size === KEPT) results.delete(results.keys().next().value);
    results.set(key, make());
  }
  return results.get(key);
}

function frame(pair, key, make) {
  return cached(pair, key, () => painted(pair.width, pair.height, make()));
}

const side = (pair, name, channel) =>
  frame(pair, `${name} ${channel}`, () => picture(values(pair, name, channel), pair.width * pair.height));

export const delta = (pair, channel) => cached(pair, `delta ${channel}`, () => difference(pair, channel));

export const masked = (pair, channel, level) =>
  cached(pair, `mask ${channel} ${level}`, () => mask(pair, delta(pair, channel), level));

// The picture that a mode computes of both sides.
function computed(pair, view) {
  const pixels = pair.width * pair.height;
  if (view.m === "mask") {
    return frame(pair, `masked ${view.ch} ${view.t}`, () => masked(pair, view.ch, view.t).rgba);
  }
  if (view.m === "onion") {
    const a = values(pair, "a", view.ch);
    return frame(pair, `onion ${view.ch} ${view.s}`, () => picture(between(a, delta(pair, view.ch), view.s / 100), pixels));
  }
  const change = view.m === "signed" ? signed : absolute;
  return frame(pair, `${view.m} ${view.ch} ${view.x}`, () => picture(change(delta(pair, view.ch), view.x), pixels));
}

// Panes of a mode: what is drawn where, in device pixels, and whose numbers it shows; `lit` is the side a blink shows.
function panes(pair, view, width, height, lit) {
  const of = (name) => ({ image: side(pair, name, view.ch), shows: name });
  const whole = { x: 0, y: 0, width, height, middle: width / 2 };
  const at = Math.round((width * view.s) / 100);
  if (view.m === "side") { // two halves even if one side is lit: no pixel moves
    const half = Math.floor(width / 2);
    return [
      { ...whole, ...of(lit || "a"), width: half - 2, middle: half / 2 },
      { ...whole, ...of(lit || "b"), x: half + 2, width: half - 2, middle: half + half / 2 },
    ];
  }
  if (lit || ["a", "b"].includes(view.m)) return [{ ...whole, ...of(lit || view.m) }];
  if (view.m === "swipe") {
    return [{ ...whole, ...of("a"), width: at }, { ...whole, ...of("b"), x: at, width: width - at }];
  }
  return [{ ...whole, image: computed(pair, view), shows: view.m === "onion" ? "" : "delta" }];
}

// Zoom that shows the whole image, in CSS pixels: a whole number where it is at least 1.
export function fit(canvas, pair, view) {
  const width = canvas.clientWidth / (view.m === "side" ? 2 : 1);
  const zoom = Math.min((width - 16) / pair.width, (canvas.clientHeight - 16) / pair.height);
  return Math.min(MOST_ZOOM, zoom >= 1 ? Math.floor(zoom) : Math.max(zoom, 0.05));
}

export const zoomOf = (canvas, pair, view) => view.z || fit(canvas, pair, view);

// Always within a pixel, wherever a link, a drag or a zoom would have it.
export function centreOf(pair, view) {
  const size = [pair.width, pair.height];
  return view.c ? view.c.map((at, k) => clamp(at, 0.5, size[k] - 0.5)) : size.map((length) => length / 2);
}

// The centre nearest to a wish at which a zoom leaves no room beside the image, or the middle of a smaller one.
export function within(canvas, pair, view, zoom, wish) {
  const room = [canvas.clientWidth / (view.m === "side" ? 2 : 1), canvas.clientHeight];
  return [pair.width, pair.height].map((length, k) => {
    const half = room[k] / (2 * zoom);
    return length <= 2 * half ? length / 2 : clamp(wish[k], half, length - half);
  });
}

// The image pixel under a point of the page, or null.
export function pixelAt(canvas, pair, view, clientX, clientY) {
  const box = canvas.getBoundingClientRect();
  const zoom = zoomOf(canvas, pair, view);
  const [cx, cy] = centreOf(pair, view);
  let x = clientX - box.left;
  let middle = box.width / 2;
  if (view.m === "side") middle = x < box.width / 2 ? box.width / 4 : (3 * box.width) / 4;
  x = Math.floor((x - middle) / zoom + cx);
  const y = Math.floor((clientY - box.top - box.height / 2) / zoom + cy);
  return x >= 0 && y >= 0 && x < pair.width && y < pair.height ? [x, y] : null;
}

export function draw(canvas, pair, view, { lit = "", block = null, grid = null, answers = null } = {}) {
  const scale = self.devicePixelRatio || 1;
  const width = (canvas.width = Math.round(canvas.clientWidth * scale));
  const height = (canvas.height = Math.round(canvas.clientHeight * scale));
  const context = canvas.getContext("2d");
  const zoom = zoomOf(canvas, pair, view) * scale;
  const [cx, cy] = centreOf(pair, view);
  context.imageSmoothingEnabled = zoom < 1;
  for (const pane of panes(pair, view, width, height, lit)) {
    const left = Math.round(pane.middle - cx * zoom);
    const top = Math.round(height / 2 - cy * zoom);
    context.save();
    context.beginPath();
    context.rect(pane.x, pane.y, pane.width, pane.height);
    context.clip();
    context.drawImage(pane.image, left, top, pair.width * zoom, pair.height * zoom);
    const place = { left, top, zoom, pane };
    if (grid && zoom * Math.min(...grid) >= 6) lines(context, pair, grid, place);
    if (zoom >= VALUES_FROM && pane.shows) numbers(context, pair, view, place);
    // of a crop, they have their places in the whole image
    if (answers) drawAnswers(context, answers, { ...place, left: left - pair.x * zoom, top: top - pair.y * zoom });
    if (block) outline(context, block, place, "#ffe600");
    if (zoom >= 4 && view.c) outline(context, { x: Math.floor(cx), y: Math.floor(cy), width: 1, height: 1 }, place, "#fff");
    context.restore();
  }
  if (view.m === "swipe" && !lit) divider(context, Math.round((width * view.s) / 100), height);
}

function outline(context, { x, y, width, height }, { left, top, zoom }, colour) {
  for (const [grow, style] of [[1.5, "#000"], [0, colour]]) {
    context.strokeStyle = style;
    context.lineWidth = 1.5;
    context.strokeRect(left + x * zoom - grow, top + y * zoom - grow, width * zoom + 2 * grow, height * zoom + 2 * grow);
  }
}

function lines(context, pair, [across, down], { left, top, zoom }) {
  context.strokeStyle = "rgba(255,255,255,.55)";
  context.lineWidth = 1;
  context.beginPath();
  for (let x = 0; x <= pair.width; x += across) {
    context.moveTo(left + x * zoom + 0.5, top);
    context.lineTo(left + x * zoom + 0.5, top + pair.height * zoom);
  }
  for (let y = 0; y <= pair.height; y += down) {
    context.moveTo(left, top + y * zoom + 0.5);
    context.lineTo(left + pair.width * zoom, top + y * zoom + 0.5);
  }
  context.stroke();
}

function divider(context, at, height) {
  context.fillStyle = "#fff";
  context.fillRect(at - 1, 0, 2, height);
}

// Numbers of a pixel, in the pixel: those of the side that is shown, or the difference.
function numbers(context, pair, view, { left, top, zoom, pane }) {
  const first = (origin, from) => Math.max(0, Math.floor((from - origin) / zoom));
  const last = (origin, to, most) => Math.min(most, Math.ceil((to - origin) / zoom));
  const rgb = view.ch === "rgb";
  context.font = `${Math.min(13, zoom / 4.2)}px ui-monospace, monospace`;
  context.lineJoin = "round";
  context.textAlign = "center";
  context.textBaseline = "middle";
  for (let y = first(top, pane.y); y < last(top, pane.y + pane.height, pair.height); y++) {
    for (let x = first(left, pane.x); x < last(left, pane.x + pane.width, pair.width); x++) {
      const found = probe(pair, view.ch, x, y);
      found[pane.shows].forEach((value, k) => {
        if (Number.isNaN(value)) return; // outside of the smaller image
        const row = top + (y + (rgb ? (k + 0.5) / 3 : 0.5)) * zoom;
        context.lineWidth = 3;
        context.strokeStyle = "#000";
        context.fillStyle = rgb ? INKS[k] : "#fff";
        const text = written(value, pane.shows === "delta", 1);
        context.strokeText(text, left + (x + 0.5) * zoom, row, zoom);
        context.fillText(text, left + (x + 0.5) * zoom, row, zoom);
      });
    }
  }
}
