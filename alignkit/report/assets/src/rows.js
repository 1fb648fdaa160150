// The run's packed data → rows of the list, for one comparison.

import { unpack } from "./unpack.js";

const MISSING = { uint8: 255, uint16: 65535 };

// Everything that is read once.
export async function open(run) {
  const labels = run.labels ? await unpack(run.labels) : null;
  const stored = new Map(run.stored.map((each) => [`${each.pair}/${each.id}`, each]));
  return { ...run, labels, storedBy: stored, cache: new Map() };
}

function once(run, key, packed) {
  if (!run.cache.has(key)) run.cache.set(key, packed ? unpack(packed) : Promise.resolve(null));
  return run.cache.get(key);
}

const finite = (array, index) => (array && Number.isFinite(array[index]) ? array[index] : null);

// The rows of a comparison: an entry of the matrix and its pair of paths.
export async function rowsOf(run, comparison) {
  const measured = run.pixels[comparison.pair];
  const [max, mean, ssim] = await Promise.all(
    ["max", "mean", "ssim"].map((name) => once(run, `${comparison.pair} ${name}`, measured?.[name])),
  );
  const seeds = await Promise.all(
    comparison.seeds.map(async ([before, after]) => ({
      before: await once(run, before, run.predictions[before]),
      after: await once(run, after, run.predictions[after]),
      margin: await once(run, `margin ${before}`, run.margins[before]),
      missing: MISSING[run.predictions[before].dtype],
    })),
  );
  return run.ids.map((id, index) => ({
    id,
    index,
    paths: comparison.paths,
    label: run.labels ? run.classes[run.labels[index]] : "",
    max: finite(max, index),
    mean: finite(mean, index),
    ssim: finite(ssim, index),
    stored: run.storedBy.has(`${comparison.pair}/${id}`),
    ...predicted(run, seeds, index),
  }));
}

function predicted(run, seeds, index) {
  const label = run.labels?.[index];
  const row = { before: [], after: [], flip: "", seeds: 0, margin: null };
  const kinds = { lost: 0, gained: 0, moved: 0 };
  for (const { before, after, margin, missing } of seeds) {
    const [was, is] = [before[index], after[index]];
    if (was === missing || is === missing) continue;
    row.before.push(run.classes[was]);
    row.after.push(run.classes[is]);
    const gap = finite(margin, index);
    if (gap !== null && (row.margin === null || gap < row.margin)) row.margin = gap;
    if (was === is) continue;
    row.seeds += 1;
    kinds[was === label ? "lost" : is === label ? "gained" : "moved"] += 1;
  }
  const [kind, number] = Object.entries(kinds).sort((a, b) => b[1] - a[1])[0];
  if (number) row.flip = kind;
  return row;
}

// Sort key `-mean`: descending by mean; rows without the number come last.
export function sorted(rows, key) {
  const descending = key.startsWith("-");
  const name = descending ? key.slice(1) : key;
  const order = (a, b) => (typeof a === "string" ? a.localeCompare(b) : a - b);
  return [...rows].sort((first, second) => {
    const [a, b] = [first[name], second[name]];
    if (a === null || b === null) return (a === null) - (b === null) || first.index - second.index;
    return (descending ? order(b, a) : order(a, b)) || first.index - second.index;
  });
}

// Per stage: max and mean of one image, for the ladder.
export async function ladder(run, pair, id) {
  const measured = run.pixels[pair];
  if (!measured) return [];
  const index = run.ids.indexOf(id);
  return Promise.all(
    measured.stages.map(async ({ stage, max, mean }) => ({
      stage,
      max: finite(await once(run, `${pair} ${stage} max`, max), index),
      mean: finite(await once(run, `${pair} ${stage} mean`, mean), index),
    })),
  );
}
