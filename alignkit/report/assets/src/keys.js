// Keys of the viewer, in one table: what the help shows is what they do.

import { ANSWERS } from "./answers.js";
import { CHANNELS, GAINS } from "./pixels.js";

export const MODES = [
  ["a", "A"], ["b", "B"], ["blink", "Blink"], ["swipe", "Swipe"], ["onion", "Onion"],
  ["side", "Side by side"], ["abs", "|B − A|"], ["signed", "B − A"], ["mask", "Above T"],
];
export const GRIDS = ["", "8", "mcu"];
const ARROWS = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };

const beside = (list, value, step) => list[Math.min(Math.max(list.indexOf(value) + step, 0), list.length - 1)];
const around = (list, value, step) => list[(list.indexOf(value) + step + list.length) % list.length];

const KEYS = {
  "+": (view, act) => act.zoom(2),
  "=": (view, act) => act.zoom(2),
  "-": (view, act) => act.zoom(0.5),
  0: (view, act) => act.set({ z: 0, c: null }),
  x: (view, act) => act.set({ x: beside(GAINS, view.x, 1) }),
  X: (view, act) => act.set({ x: beside(GAINS, view.x, -1) }),
  c: (view, act) => act.set({ ch: around(CHANNELS, view.ch, 1) }),
  C: (view, act) => act.set({ ch: around(CHANNELS, view.ch, -1) }),
  t: (view, act) => act.set({ t: Math.min(view.t + 1, 255) }),
  T: (view, act) => act.set({ t: Math.max(view.t - 1, 0) }),
  g: (view, act) => act.set({ g: around(GRIDS, view.g, 1) }),
  o: (view, act) => act.set({ o: around(ANSWERS, view.o, 1) }),
  s: (view, act) => act.stage(1),
  S: (view, act) => act.stage(-1),
  ".": (view, act) => act.set({ s: Math.min(view.s + 5, 100) }),
  ",": (view, act) => act.set({ s: Math.max(view.s - 5, 0) }),
  j: (view, act) => act.image(1),
  k: (view, act) => act.image(-1),
  J: (view, act) => act.block(1),
  K: (view, act) => act.block(-1),
  b: (view, act) => act.hold(true),
  " ": (view, act) => act.hold(true),
  y: (view, act) => act.copy(),
  r: (view, act) => act.reproduce(),
  d: (view, act) => act.save(),
  "?": (view, act) => act.help(),
};

export const PAGE_HELP = [
  ["?", "show these keys"],
  ["m", "go to the drift matrix; there arrows lead from cell to cell"],
  ["/", "filter the list of images"],
  ["w", "open the first image shown"],
];

export const HELP = [
  ["1 … 9", MODES.map(([, name]) => name).join(", ")],
  ["Space or b, held", "show the other side"],
  ["+  −  0", "zoom in, out, whole image"],
  ["arrows", "move by a pixel; with Shift by eight"],
  ["drag, wheel, pinch", "move, zoom; a drag on the divider, with Shift or, in Swipe, of one finger moves the divider"],
  ["s  S", "next, previous stage: decoded, resized, final"],
  ["J  K", "next, previous worst block, enlarged at least 24 times"],
  ["j  k", "next, previous image of the list"],
  ["x  X", "amplify more, less"],
  ["c  C", "next, previous channel: RGB, R, G, B, Y, Cb, Cr"],
  ["t  T", "raise, lower the level T"],
  [".  ,", "raise, lower the divider or opacity"],
  ["g", "grid on the decoded image: none, JPEG blocks of 8×8, the file's MCU"],
  ["o", "boxes and masks of the answers: each on its side, A and B, with the truth, none"],
  ["y", "copy the link to this view"],
  ["r", "copy the command that compares this image"],
  ["d", "save this view as PNG"],
  ["Esc", "close"],
];

// Does what the table has for a key; true if it has anything.
export function command(event, view, act) {
  if (event.ctrlKey || event.metaKey || event.altKey) return false;
  const typing = ["INPUT", "SELECT"].includes(event.target.tagName);
  if (typing || (event.key === " " && event.target.tagName === "BUTTON")) return false;
  if (ARROWS[event.key]) {
    const [dx, dy] = ARROWS[event.key].map((step) => step * (event.shiftKey ? 8 : 1));
    act.pan(dx, dy);
    return true;
  }
  if (/^[1-9]$/.test(event.key)) {
    act.set({ m: MODES[Number(event.key) - 1][0] });
    return true;
  }
  const found = KEYS[event.key];
  if (found) found(view, act);
  return Boolean(found);
}
