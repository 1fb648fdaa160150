// The address says the whole view: #/matrix?metric=churn, #/images?cell=4&q=flip:yes or
// #/image/<pair>/<id>?e=4&m=abs&x=32&ch=cb&z=16&c=12.5,8.5; cell is the comparison that the list shows (the
// headline's without, or all), e that of the image; p is the stage, without it the final pixels; x=0 is the
// amplification that suits the image, t=-1 the level of its 90th percentile, z=0 the zoom that shows all of it.

import { ANSWERS } from "./answers.js";
import { MOST_ZOOM } from "./canvas.js";
import { GRIDS, MODES } from "./keys.js";
import { CHANNELS, GAINS } from "./pixels.js";

export const DEFAULTS = {
  metric: "", cell: "", q: "", sort: "-seeds",
  e: "", p: "", m: "abs", x: 0, ch: "rgb", t: -1, g: "", o: "own", s: 50, z: 0, c: null,
};
const KNOWN = { m: MODES.map(([mode]) => mode), x: [0, ...GAINS], ch: CHANNELS, g: GRIDS, o: ANSWERS };
const PAGES = ["matrix", "images"];
const LIST = ["metric", "cell", "q", "sort"];

export function read(hash) {
  const [path, search = ""] = hash.replace(/^#/, "").split("?");
  const parts = decoded(path);
  if (!parts || parts[0] !== "" || ![...PAGES, "image"].includes(parts[1])) return null;
  const given = Object.fromEntries(new URLSearchParams(search));
  const view = { ...DEFAULTS, page: parts[1], pair: parts[2] ?? "", id: parts[3] ?? "" };
  for (const key of Object.keys(DEFAULTS)) {
    if (given[key] === undefined) continue;
    const number = Number(given[key]);
    if (key === "c") view.c = given.c.split(",").map(Number);
    else if (KNOWN[key] && !KNOWN[key].map(String).includes(given[key])) continue; // nothing would be drawn
    else if (typeof DEFAULTS[key] === "number") view[key] = Number.isFinite(number) ? number : DEFAULTS[key];
    else view[key] = given[key];
  }
  if (view.c && !(view.c.length === 2 && view.c.every(Number.isFinite))) view.c = null;
  if (view.z && !(view.z > 0 && view.z <= MOST_ZOOM)) view.z = DEFAULTS.z;
  return view;
}

// The parts of a path; null if a % begins no character.
function decoded(path) {
  try {
    return path.split("/").map(decodeURIComponent);
  } catch {
    return null;
  }
}

export function write(view) {
  const keys = PAGES.includes(view.page) ? LIST : Object.keys(DEFAULTS);
  const search = new URLSearchParams();
  for (const key of keys) {
    if (view[key] === null || String(view[key]) === String(DEFAULTS[key])) continue;
    search.set(key, key === "c" ? view.c.map((at) => +at.toFixed(3)).join(",") : view[key]);
  }
  const path = PAGES.includes(view.page) ? `/${view.page}` : `/image/${[view.pair, view.id].map(encodeURIComponent).join("/")}`;
  return `#${path}${search.size ? `?${search}` : ""}`;
}

const PAUSE = 300; // ms
let wanted = "";
let written = "";
let timer = 0;

// Writes a view into the address, at once or soon: of hundreds in half a minute, as a drag gives, browsers refuse some.
export function put(view) {
  wanted = write(view);
  if (!timer) putNow();
}

function putNow() {
  timer = 0;
  if (written === wanted) return;
  history.replaceState(null, "", (written = wanted));
  timer = setTimeout(putNow, PAUSE);
}

// A link has changed the address; what was to be written is out of date.
export function changed() {
  wanted = written = location.hash;
}
