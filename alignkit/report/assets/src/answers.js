// Draws answers over a pane: the boxes and masks of A, of B and of the truth, in pixels of the oriented image.
// A drawing is {boxes: [[side, left, top, right, bottom, text, kind]], masks: [[side, values, width, height]], maps};
// maps has, for each stage, where A and B have the points of that image: [xx, yx, xy, yy, x0, y0].

import { painted } from "./element.js";
import { unpack } from "./unpack.js";

export const ANSWERS = ["own", "both", "truth", "none"];
const INKS = { a: "#56b4e9", b: "#ffb000", truth: "#7dff9b" };
const WIDE = { lost: 4, won: 4, "class-changed": 3 };
const made = new Map();

// A mask in the colours of its classes; null until it is unpacked, and then `again` is called.
function coloured([side, values, width, height], colours, again) {
  if (made.has(values)) return made.get(values);
  made.set(values, null);
  unpack(values).then((found) => {
    const rgba = new Uint8ClampedArray(4 * found.length);
    found.forEach((value, i) => {
      const none = side === "differing" ? !value : value === 255;
      rgba.set(none ? [0, 0, 0, 0] : [...(side === "differing" ? [227, 26, 28] : colours[value % colours.length]), 255], 4 * i);
    });
    made.set(values, painted(width, height, rgba));
    again();
  });
  return null;
}

export function drawAnswers(context, { drawn: { boxes, masks }, maps, colours, mode, again }, { left, top, zoom, pane }) {
  const map = maps[Number(pane.shows === "b")];
  const one = ["a", "b"].includes(pane.shows) && mode !== "both";
  const sides = [...(one ? [pane.shows] : ["a", "b"]), ...(mode === "truth" ? ["truth"] : [])];
  for (const mask of masks) {
    // of two masks over each other only the difference can be seen
    if (!(one ? sides : ["differing", ...sides.slice(2)]).includes(mask[0])) continue;
    const picture = coloured(mask, colours, again);
    if (!picture) continue;
    context.save();
    context.translate(left, top);
    context.scale(zoom, zoom);
    context.transform(...map);
    context.globalAlpha = 0.55;
    context.imageSmoothingEnabled = false;
    context.drawImage(picture, 0, 0);
    context.restore();
  }
  context.font = "600 13px system-ui, sans-serif";
  context.textAlign = "left";
  const [xx, yx, xy, yy, x0, y0] = map;
  const at = (x, y) => [left + (xx * x + xy * y + x0) * zoom, top + (yx * x + yy * y + y0) * zoom];
  for (const [side, ...box] of boxes) {
    if (!sides.includes(side)) continue;
    const [text, kind] = box.slice(4);
    const [[ax, ay], [bx, by]] = [at(box[0], box[1]), at(box[2], box[3])];
    const [x, y] = [Math.min(ax, bx), Math.min(ay, by)];
    context.setLineDash(side === "truth" ? [2, 3] : kind === "class-changed" ? [6, 3] : []);
    context.lineWidth = WIDE[kind] ?? 1.5;
    context.strokeStyle = context.fillStyle = INKS[side];
    context.strokeRect(x, y, Math.abs(bx - ax), Math.abs(by - ay));
    const above = [x, Math.max(y - 5, 12)];
    context.setLineDash([]);
    context.lineWidth = 3;
    context.strokeStyle = "#000";
    context.strokeText(text, ...above);
    context.fillText(text, ...above);
  }
}
