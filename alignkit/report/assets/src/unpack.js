// Packed arrays → typed arrays. A report opened from disk may not fetch files; it may load classic
// scripts, which put packed arrays on `self`.

import { element } from "./element.js";

const TYPES = { uint8: Uint8Array, uint16: Uint16Array, uint32: Uint32Array, float32: Float32Array };

async function inflate(base64) {
  const bytes = Uint8Array.from(atob(base64), (letter) => letter.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

// {dtype, data}: zlib over the bytes, all first bytes of the values, then all second ones, and so on.
export async function unpack({ dtype, data }) {
  const Type = TYPES[dtype];
  const shuffled = await inflate(data);
  const size = Type.BYTES_PER_ELEMENT;
  const count = shuffled.length / size;
  const bytes = new Uint8Array(shuffled.length);
  for (let k = 0; k < size; k++) {
    for (let i = 0; i < count; i++) bytes[i * size + k] = shuffled[k * count + i];
  }
  return new Type(bytes.buffer);
}

function load(source) {
  return new Promise((resolve, reject) => {
    const onerror = () => reject(new Error(`${source} is missing next to this page`));
    document.head.append(element("script", { src: source, onload: resolve, onerror }));
  });
}

// Sums along a line of bytes, modulo 256: the opposite of differences.
function summed(bytes, from, count, step) {
  for (let i = from + step, end = from + count * step; i < end; i += step) bytes[i] += bytes[i - step];
}

// A plane of green and of red and blue less green, each as differences across and down, → RGB.
function coloured(planes, width, height) {
  const size = width * height;
  for (let k = 0; k < 3; k++) {
    for (let y = 0; y < height; y++) summed(planes, k * size + y * width, width, 1);
    for (let x = 0; x < width; x++) summed(planes, k * size + x, height, width);
  }
  const out = new Uint8Array(3 * size);
  for (let i = 0; i < size; i++) {
    const green = planes[size + i];
    out[3 * i] = planes[i] + green;
    out[3 * i + 1] = green;
    out[3 * i + 2] = planes[2 * size + i] + green;
  }
  return out;
}

async function image({ dtype, width, height, data }, reference) {
  const values = await unpack({ dtype: dtype === "float32" ? dtype : "uint8", data });
  if (dtype === "differences") return coloured(values, width, height);
  return dtype === "change" ? values.map((value, i) => value + reference[i]) : values;
}

// Puts an image into a larger frame; what is outside of it is NaN.
function framed(values, { width, height }, frame) {
  if (width === frame.width && height === frame.height) return Float32Array.from(values);
  const out = new Float32Array(3 * frame.width * frame.height).fill(NaN);
  for (let y = 0; y < height; y++) out.set(values.subarray(3 * y * width, 3 * (y + 1) * width), 3 * y * frame.width);
  return out;
}

// The exact values of both sides of an image; of two sizes, both in the frame that holds either.
export async function loadPair({ script, state, x = 0, y = 0 }) {
  if (!self.alignkitPixels?.[script]) await load(script);
  const { a, b } = self.alignkitPixels[script];
  const frame = { width: Math.max(a.width, b.width), height: Math.max(a.height, b.height) };
  const first = await image(a);
  const second = await image(b, first);
  const uneven = a.width !== b.width || a.height !== b.height;
  return { ...frame, x, y, uneven, alike: state === "identical", a: framed(first, a, frame), b: framed(second, b, frame) };
}
