// The list's query language: `flip:lost class:daisy path:pillow max>8 !predicted:rose holiday`.
// All terms must hold; `!` turns one round; a bare word looks into the file name.

const TERM = /(!?)(?:(\w+)(:|>=|<=|>|<|=)("[^"]*"|\S+)|("[^"]*"|\S+))/g;
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
const TEXTS = {
  class: (row) => [row.label],
  predicted: (row) => row.after,
  was: (row) => row.before,
  path: (row) => row.comparison.paths,
  backend: (row) => [row.comparison.backend],
  precision: (row) => [row.comparison.precision],
};

const bare = (text) => text.replace(/^"|"$/g, "");

function term(key, sign, value) {
  if (key === "flip") {
    const kind = value.toLowerCase();
    if (FLIPS[kind]) return FLIPS[kind];
    if (["lost", "gained", "moved", "changed"].includes(kind)) return (row) => row.flip === kind;
    throw new Error("flip: takes yes, no, lost, gained, moved or changed");
  }
  if (key === "pixels") return (row) => row.stored === (value === "yes");
  if (TEXTS[key] && sign === ":") return (row) => TEXTS[key](row).includes(value);
  if (NUMBERS.includes(key)) {
    const limit = Number(value);
    if (Number.isNaN(limit)) throw new Error(`${key}${sign} takes a number`);
    return (row) => row[key] !== null && COMPARE[sign](row[key], limit);
  }
  const known = ["flip", ...Object.keys(TEXTS), "pixels"].map((each) => `${each}:`);
  throw new Error(`no ${key}${sign}: use ${known.join(" ")} ${NUMBERS.map((each) => `${each}>`).join(" ")} or a word`);
}

// Query → predicate on rows; throws an Error with a message for the user.
export function parse(text) {
  const tests = [...text.matchAll(TERM)].map(([, not, key, sign, value, word]) => {
    const test = key ? term(key.toLowerCase(), sign, bare(value)) : (row) => row.id.includes(bare(word));
    return not ? (row) => !test(row) : test;
  });
  return (row) => tests.every((test) => test(row));
}
