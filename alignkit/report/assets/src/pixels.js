// Arithmetic of the viewer, on exact values; nothing here touches the page.
// A pair is {width, height, a, b}: Float32Array of height x width x 3, RGB, 0..255; NaN outside of the smaller
// image where the two are uneven. Of a crop, x and y are its place in the image.

export const CHANNELS = ["rgb", "r", "g", "b", "y", "cb", "cr"];
export const GAINS = [1, 2, 4, 8, 16, 32, 64];
const BLOCK = 8;

// JFIF: ITU-R BT.601 over the full range, as in JPEG.
const WEIGHTS = {
  r: [1, 0, 0, 0],
  g: [0, 1, 0, 0],
  b: [0, 0, 1, 0],
  y: [0.299, 0.587, 0.114, 0],
  cb: [-0.168736, -0.331264, 0.5, 128],
  cr: [0.5, -0.418688, -0.081312, 128],
};

export const clamp = (value, low, high) => Math.min(Math.max(value, low), high);

// One channel of an RGB array as Float64Array of pixels.
export function plane(values, channel) {
  const [r, g, b, offset] = WEIGHTS[channel];
  const out = new Float64Array(values.length / 3);
  for (let i = 0, j = 0; i < out.length; i++, j += 3) {
    out[i] = r * values[j] + g * values[j + 1] + b * values[j + 2] + offset;
  }
  return out;
}

// Values of a side: three a pixel for rgb, one for a single channel.
export function values(pair, side, channel) {
  return channel === "rgb" ? pair[side] : plane(pair[side], channel);
}

// Candidate minus reference.
export function difference(pair, channel) {
  const a = values(pair, "a", channel);
  const b = values(pair, "b", channel);
  const out = new Float64Array(a.length);
  for (let i = 0; i < out.length; i++) out[i] = b[i] - a[i];
  return out;
}

// Values → RGBA bytes. Uint8ClampedArray clips to 0..255 and rounds half to even, as NumPy's rint.
export function picture(found, pixels) {
  const out = new Uint8ClampedArray(pixels * 4);
  const single = found.length === pixels;
  for (let i = 0; i < pixels; i++) {
    for (let k = 0; k < 3; k++) out[4 * i + k] = found[single ? i : 3 * i + k];
    out[4 * i + 3] = Number.isNaN(found[single ? i : 3 * i]) ? 0 : 255;
  }
  return out;
}

export const absolute = (delta, gain) => delta.map((value) => Math.abs(value) * gain);
export const signed = (delta, gain) => delta.map((value) => 128 + value * gain);

export const between = (a, delta, share) => delta.map((value, i) => a[i] + value * share);

// Largest |difference| over the channels of each pixel.
export function largest(delta, pixels) {
  const step = delta.length / pixels;
  const out = new Float64Array(pixels);
  for (let i = 0; i < pixels; i++) {
    for (let k = 0; k < step; k++) out[i] = Math.max(out[i], Math.abs(delta[step * i + k]));
  }
  return out;
}

// The greatest gain that leaves at most 0.5 % of the values above 255; as record/picture_facts.py chooses it.
export function suitableGain(delta) {
  if (!delta.some(Boolean)) return 1;
  const spared = 0.005 * delta.length;
  const clipped = (gain) => delta.reduce((count, value) => count + (Math.abs(value) * gain > 255), 0);
  return [...GAINS].reverse().find((gain) => clipped(gain) <= spared) ?? 1;
}

// The level that 90 % of the pixels do not exceed: the value at that place in their order.
export function ninetieth(delta, pixels) {
  const levels = largest(delta, pixels).sort();
  return levels[Math.ceil(0.9 * levels.length) - 1];
}

// RGBA of the pixels above a level, over the darkened reference; and how many there are.
export function mask(pair, delta, level) {
  const pixels = pair.width * pair.height;
  const above = largest(delta, pixels);
  const grey = plane(pair.a, "y");
  const out = new Uint8ClampedArray(pixels * 4);
  let count = 0;
  for (let i = 0; i < pixels; i++) {
    const hit = above[i] > level;
    count += hit;
    out.set(hit ? [255, 64, 200, 255] : [grey[i] * 0.4, grey[i] * 0.4, grey[i] * 0.4, 255], 4 * i);
  }
  return { rgba: out, count, share: count / pixels };
}

// max, mean over all values, and share of pixels that differ.
export function statistics(delta, pixels) {
  let sum = 0;
  let max = 0;
  for (const value of delta) {
    sum += Math.abs(value);
    max = Math.max(max, Math.abs(value));
  }
  const differing = largest(delta, pixels).reduce((count, value) => count + (value > 0), 0);
  return { max, mean: sum / delta.length, differing: differing / pixels };
}

// Blocks of 8 x 8 pixels, greatest mean |difference| first; equal ones in reading order.
export function worstBlocks(pair, delta) {
  const step = delta.length / (pair.width * pair.height);
  const blocks = [];
  for (let y = 0; y < pair.height; y += BLOCK) {
    for (let x = 0; x < pair.width; x += BLOCK) {
      const width = Math.min(BLOCK, pair.width - x);
      const height = Math.min(BLOCK, pair.height - y);
      let sum = 0;
      for (let row = y; row < y + height; row++) {
        const from = (row * pair.width + x) * step;
        for (let i = from; i < from + width * step; i++) sum += Math.abs(delta[i]);
      }
      blocks.push({ x, y, width, height, mean: sum / (width * height * step) });
    }
  }
  return blocks.sort((first, second) => second.mean - first.mean);
}

// A, B and B - A of one pixel, in the channel's values.
export function probe(pair, channel, x, y) {
  const index = y * pair.width + x;
  const read = (side) => {
    const rgb = [0, 1, 2].map((k) => pair[side][3 * index + k]);
    return channel === "rgb" ? rgb : [plane(Float32Array.from(rgb), channel)[0]];
  };
  const a = read("a");
  const b = read("b");
  return { a, b, delta: b.map((value, k) => value - a[k]) };
}
