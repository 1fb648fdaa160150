// Packed arrays → typed arrays. A report opened from disk may not fetch files; it may load classic
// scripts, which put packed arrays on `self`.

const TYPES = { uint8: Uint8Array, uint16: Uint16Array, float32: Float32Array };

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
    const script = document.createElement("script");
    script.src = source;
    script.onload = resolve;
    script.onerror = () => reject(new Error(`${source} is missing next to this page`));
    document.head.append(script);
  });
}

// The exact values of both sides of an image.
export async function loadPair({ script }) {
  if (!self.alignkitPixels?.[script]) await load(script);
  const { width, height, a, b } = self.alignkitPixels[script];
  const floats = async (packed) => Float32Array.from(await unpack(packed));
  return { width, height, a: await floats(a), b: await floats(b) };
}
