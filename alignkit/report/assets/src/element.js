// Elements that are made without a template.

export function element(tag, fields = {}, ...children) {
  const made = Object.assign(document.createElement(tag), fields);
  made.append(...children);
  return made;
}

// A canvas that holds RGBA bytes.
export function painted(width, height, rgba) {
  const canvas = element("canvas", { width, height });
  canvas.getContext("2d").putImageData(new ImageData(rgba, width, height), 0, 0);
  return canvas;
}
