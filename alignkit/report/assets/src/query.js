// The list's query language: `flip:lost class:daisy path:pillow max>8 !predicted:rose holiday`.
// All terms must hold; `!` negates one; a bare word looks into the file name.

const TERM = /(!?)(?:(\w+)(:|>=|<=|>|<|=)("[^"]*"|\S*)|("[^"]*"|\S+))/g;
const FLIPS = { yes: (row) => row.flip !== "", no: (row) => row.flip === "" };
const COMPARE = {
  ">": (a, b) => a > b,
  "<": (a, b) => a < b,
  ">=": (a, b) => a >= b,
  "<=": (a, b) => a <= b,
  "=": (a, b) => a === b,
  ":": (a, b) => a === b,
};
const NUMBERS = ["max", "mean", "ssim", "margin", "seeds"];
// what a row has, and what it may have in this run
const TEXTS = {
  class: [(row) => [row.label], (run) => run.words],
  predicted: [(row) => row.after, (run) => [...run.words, "no prediction"]],
  was: [(row) => row.before, (run) => [...run.words, "no prediction"]],
  path: [(row) => row.comparison.paths, (run) => run.comparisons.flatMap(({ paths }) => paths)],
  backend: [(row) => [row.comparison.backend], (run) => run.comparisons.map(({ backend }) => backend)],
  precision: [(row) => [row.comparison.precision], (run) => run.comparisons.map(({ precision }) => precision)],
};
const SAID = new Set(["class", "was", "predicted"]);
const KEYS = ["flip", ...Object.keys(TEXTS), "pixels"];

const bare = (text) => text.replace(/^"|"$/g, "");

// Levenshtein's distance: letters to insert, delete or replace.
function distance(a, b) {
  let row = [...Array(b.length + 1).keys()];
  for (let i = 1; i <= a.length; i++) {
    const next = [i];
    for (let j = 1; j <= b.length; j++) next[j] = Math.min(row[j] + 1, next[j - 1] + 1, row[j - 1] + (a[i - 1] !== b[j - 1]));
    row = next;
  }
  return row[b.length];
}

// The nearest of the known words, in a question; empty if none is near.
function meant(word, known, prefix = "") {
  const near = [...new Set(known)].map((each) => [distance(word, each.toLowerCase()), each]).sort(([a], [b]) => a - b)[0];
  return near && near[0] <= Math.max(1, word.length / 3) ? `; did you mean ${prefix}${near[1]}?` : "";
}

// A term → its test; throws an Error with a message for the user.
function term(key, sign, value, run) {
  const said = value.toLowerCase();
  if (key === "flip" || key === "pixels") {
    const known = ["yes", "no", ...(key === "flip" ? run.kinds.slice(1) : [])];
    if (sign !== ":" || !known.includes(said)) throw new Error(`takes ${known.join(", ")}${meant(said, known, `${key}:`)}`);
    if (key === "pixels") return (row) => row.stored === (said === "yes");
    return FLIPS[said] ?? ((row) => row.flip === said);
  }
  if (TEXTS[key] && sign === ":") {
    const [of, all] = TEXTS[key];
    const known = all(run);
    // of answers that are no classes, a part is enough
    const fits = !run.exact && SAID.has(key) ? (each) => each.includes(value) : (each) => each === value;
    if (!known.some(fits)) throw new Error(`no ${key} ${value || "without a name"}${meant(said, known, `${key}:`)}`);
    return (row) => of(row).some(fits);
  }
  if (NUMBERS.includes(key)) {
    const limit = Number(value);
    if (!value || Number.isNaN(limit)) throw new Error("takes a number");
    return (row) => row[key] !== null && COMPARE[sign](row[key], limit);
  }
  if (TEXTS[key]) throw new Error(`write ${key}:${value}`);
  throw new Error(`no such term${meant(key, [...KEYS, ...NUMBERS]) || `: use ${KEYS.map((each) => `${each}:`).join(" ")} ${NUMBERS.map((each) => `${each}>`).join(" ")} or a part of a file name`}`);
}

// Query → predicate on rows, a sentence for each term that is wrong and therefore left out, and hints where nothing
// is found: a bare word that looks like a kind of flip.
export function parse(text, run) {
  const [tests, faults, hints] = [[], [], []];
  for (const [whole, not, key, sign, value, word] of text.matchAll(TERM)) {
    if (!key) {
      const part = bare(word);
      tests.push(not ? (row) => !row.id.includes(part) : (row) => row.id.includes(part));
      if (["yes", "no", ...run.kinds.slice(1)].includes(part.toLowerCase())) hints.push(`${part} is looked for in file names; did you mean flip:${part.toLowerCase()}?`);
      continue;
    }
    try {
      const test = term(key.toLowerCase(), sign, bare(value), run);
      tests.push(not ? (row) => !test(row) : test);
    } catch (error) {
      faults.push(`${whole}: ${error.message}`);
    }
  }
  return { test: (row) => tests.every((test) => test(row)), faults, hints };
}
