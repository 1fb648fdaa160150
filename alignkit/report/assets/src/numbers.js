// Numbers as alignkit/text/numbers.py writes them; tests/report/test_bundle.py holds both equal.

export const grouped = (number) => String(number).replace(/\B(?=(\d{3})+$)/g, "\u00a0");

// A tie goes to the even digit, as in Python; toFixed alone rounds it up.
function fixed(value, decimals) {
  const tie = new RegExp(`\\.\\d{${decimals}}50*$`).test(value.toFixed(60));
  const scale = 10 ** decimals;
  return (tie ? (2 * Math.round((value * scale) / 2)) / scale : value).toFixed(decimals);
}

// Zero alone reads 0; a size that rounds to it reads <0.01, and a change that does has no sign.
export function plain(value, decimals) {
  const text = fixed(value, decimals);
  if (value === 0) return "0";
  if (value > 0 && !Number(text)) return `<${(10 ** -decimals).toFixed(decimals)}`;
  return Number(text) ? text.replace("-", "−") : text.replace("-", "");
}

export function percent(share, decimals = 1) {
  if (share === 0 || share === 1) return `${100 * share}\u00a0%`;
  if (share < 1 && Number(fixed(100 * share, decimals)) === 100) return `>${fixed(100 - 10 ** -decimals, decimals)}\u00a0%`;
  return `${plain(100 * share, decimals)}\u00a0%`;
}

// A value of a pixel: whole numbers whole, others with their decimals; a change has its sign.
export function written(value, change = false, decimals = 2) {
  const text = Number.isInteger(value) ? String(Math.abs(value)) : fixed(Math.abs(value), decimals);
  const sign = value < 0 ? "−" : change ? "+" : "";
  return `${Number(text) ? sign : ""}${text}`;
}

// What a written number sorts by: 3 000, −0.4 [−0.6, −0.2], <0.01, 12 %; NaN where none stands first.
export const read = (text) =>
  parseFloat(text.replace(/(\d)\u00a0(?=\d{3})/g, "$1").replace(/−/g, "-").replace(/^[<>+]/, "").replace(/^(?![-\d.]).*/, ""));
