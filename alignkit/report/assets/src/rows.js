// The run's packed data → the rows of the list: an image in a comparison each.

import { unpack } from "./unpack.js";

// Where an image was not asked about.
const MISSING = { uint8: 255, uint16: 65535, uint32: 4294967295 };
const NO_LIST = { ids: [], comparisons: [], pixels: {}, kinds: [], heads: {} };

// Everything that is read once.
export async function open(run) {
  const labels = run.labels ? await unpack(run.labels) : null;
  const words = run.words ? new TextDecoder().decode(await unpack(run.words)).split("\n") : [];
  const stored = new Map(run.stored.map((each) => [pictureOf(each.pair, each.id), each]));
  const shown = new Map([...new Set(run.stored.map((each) => each.id))].map((id, place) => [id, place]));
  return { ...NO_LIST, ...run, words, labels, storedBy: stored, shown, cache: new Map() };
}

export const pictureOf = (pair, id) => `${pair}/${id}`;

function once(run, key, make) {
  if (!run.cache.has(key)) run.cache.set(key, make());
  return run.cache.get(key);
}

const unpacked = (run, key, packed) => once(run, key, async () => (packed ? unpack(packed) : null));
const finite = (array, index) => (array && Number.isFinite(array[index]) ? array[index] : null);

// The columns of a comparison (an entry of the matrix and its pair of paths): a value for each image.
async function columnsOf(run, comparison) {
  const measured = run.pixels[comparison.pair];
  const last = measured?.stages.find(({ stage }) => stage === measured.last);
  const [max, mean, ssim, shift] = await Promise.all([
    ...["max", "mean"].map((name) => unpacked(run, `${comparison.pair} ${measured?.last} ${name}`, last?.[name])),
    unpacked(run, `${comparison.pair} ssim`, measured?.ssim),
    unpacked(run, `shift ${comparison.entry}`, comparison.shift),
  ]);
  const seeds = await Promise.all(
    comparison.seeds.map(async ([before, after], seed) => ({
      turned: await unpack(comparison.turned[seed]),
      before: await unpacked(run, before, run.predictions[before]),
      after: await unpacked(run, after, run.predictions[after]),
      margin: await unpacked(run, `margin ${before}`, run.margins[before]),
      missing: MISSING[run.predictions[before].dtype],
    })),
  );
  return { comparison, max, mean, ssim, shift, seeds, ...flipsOf(run.ids.length, seeds) };
}

const predictedBoth = ({ before, after, missing }, index) => before[index] !== missing && after[index] !== missing;

// Of every image: the kind of flip most seeds show, the seeds that flip and that lose, the least margin of any.
function flipsOf(images, seeds) {
  const flip = new Uint8Array(images);
  const flips = new Uint16Array(images);
  const losses = new Uint16Array(images);
  const margin = new Float32Array(images).fill(NaN);
  const number = [0, 0, 0, 0, 0];
  for (let index = 0; index < flip.length; index++) {
    number.fill(0);
    for (const seed of seeds) {
      if (!predictedBoth(seed, index)) continue;
      const gap = finite(seed.margin, index);
      if (gap !== null && !(margin[index] <= gap)) margin[index] = gap;
      number[seed.turned[index]] += 1; // a place among the kinds
    }
    flips[index] = number[1] + number[2] + number[3] + number[4];
    losses[index] = number[1];
    number[0] = 0;
    if (flips[index]) flip[index] = number.indexOf(Math.max(...number));
  }
  return { flip, flips, losses, margin };
}

// A row holds no values of its own: of a hundred thousand, some dozens are looked at.
class Row {
  constructor(run, columns, index) {
    Object.assign(this, { run, columns, index });
  }

  get id() { return this.run.ids[this.index]; }
  get label() { return this.run.labels ? this.run.words[this.run.labels[this.index]] : ""; }
  get max() { return finite(this.columns.max, this.index) ?? this.kept?.max ?? null; }
  get mean() { return finite(this.columns.mean, this.index) ?? this.kept?.mean ?? null; }
  get ssim() { return finite(this.columns.ssim, this.index); }
  get margin() { return finite(this.columns.margin, this.index); }
  get flip() { return this.run.kinds[this.columns.flip[this.index]]; }
  get seeds() { return this.columns.flips[this.index]; }
  get turns() { return this.known.map(({ turned }) => turned[this.index]); }
  get known() { return this.columns.seeds.filter((seed) => predictedBoth(seed, this.index)); }
  get before() { return this.predicted("before"); }
  get after() { return this.predicted("after"); }
  get comparison() { return this.columns.comparison; }
  get title() { return this.comparison.title; }
  get picture() { return pictureOf(this.comparison.pair, this.id); }
  get kept() { return this.run.storedBy.get(this.picture); }
  get stored() { return Boolean(this.kept); }
  // by seeds that flip, then those that lose, then the shift of the logits
  get rank() { return (this.seeds * 65536 + this.columns.losses[this.index]) * 256 + (this.columns.shift?.[this.index] ?? 0); }

  predicted(side) {
    return this.known.map((seed) => this.run.words[seed[side][this.index]]);
  }
}

// Rows by their number: the images of the first comparison, then those of the second, and so on.
export class Rows {
  constructor(run, tables) {
    Object.assign(this, { run, tables, images: run.ids.length, length: tables.length * run.ids.length });
  }

  at(number) {
    return new Row(this.run, this.tables[Math.floor(number / this.images)], number % this.images);
  }

  // The first row of each image, in an order of rows.
  firsts(order) {
    const seen = new Uint8Array(this.images);
    return order.filter((number) => !seen[number % this.images] && (seen[number % this.images] = 1));
  }

  // The numbers of the rows in an order: `-mean` is descending by mean; rows without the number come last.
  sorted(key) {
    const sign = key.startsWith("-") ? -1 : 1;
    const column = key.replace("-", "");
    const keys = ranked(Array.from({ length: this.length }, (_, number) => this.at(number)[column === "seeds" ? "rank" : column]));
    const tie = (a, b) => (a % this.images) - (b % this.images) || a - b;
    return Uint32Array.from(keys.keys()).sort((a, b) => {
      const [first, second] = [keys[a], keys[b]];
      if (Number.isNaN(first) || Number.isNaN(second)) return Number.isNaN(first) - Number.isNaN(second) || tie(a, b);
      return sign * (first - second) || tie(a, b);
    });
  }
}

// Values → numbers in their order, NaN for none; of words, their places in the alphabet.
function ranked(values) {
  if (typeof values[0] !== "string") return Float64Array.from(values, (value) => value ?? NaN);
  const words = [...new Set(values)].sort(new Intl.Collator().compare);
  const places = new Map(words.map((word, place) => [word, place]));
  return Float64Array.from(values, (value) => places.get(value));
}

// The rows of a comparison, or of all.
export async function rowsOf(run, comparisons) {
  const tables = comparisons.map((each) => once(run, `columns ${each.entry}`, () => columnsOf(run, each)));
  return new Rows(run, await Promise.all(tables));
}

// The row of an image in an entry's comparison, or else in the first that shares its pixels.
export async function rowOf(run, comparisons, { pair, id, e }) {
  const index = run.ids.indexOf(id);
  const sharing = [...comparisons, ...run.comparisons].filter((each) => each.pair === pair);
  const comparison = sharing.find(({ entry }) => String(entry) === e) ?? sharing[0];
  return comparison && index >= 0 ? (await rowsOf(run, [comparison])).at(index) : undefined;
}

// Per stage: max and mean of one image, for the ladder.
export async function ladder(run, pair, id) {
  const measured = run.pixels[pair];
  if (!measured) return [];
  const index = run.ids.indexOf(id);
  return Promise.all(
    measured.stages.map(async ({ stage, max, mean }) => ({
      stage,
      max: finite(await unpacked(run, `${pair} ${stage} max`, max), index),
      mean: finite(await unpacked(run, `${pair} ${stage} mean`, mean), index),
    })),
  );
}

// Per seed: the predictions of one image before and after, each with its probability and margin.
export function chances(run, row) {
  const place = run.shown.get(row.id);
  const sure = (key) => run.certainty[key] && (run.certainty[key][place] ?? [null, null]);
  const seeds = row.comparison.seeds.map((keys, k) => [keys, row.columns.seeds[k]]);
  const known = seeds.filter(([, each]) => predictedBoth(each, row.index));
  return known.map(([[before, after], each]) => ({
    seed: run.seedOf[before],
    changed: each.turned[row.index],
    was: run.words[each.before[row.index]],
    is: run.words[each.after[row.index]],
    before: sure(before),
    after: sure(after),
  }));
}
