// The stages of a stored image that the viewer can show: decoded, resized, final.

const NAMES = { decode: "Decoded", resize: "Resized", "": "Final" };
const OF_LADDER = { decode: "decode", resize: "resize", colour: "" };

// Those of an image; the final pixels come last, under the empty name that a link leaves out.
export function stagesOf(stored) {
  return [...stored.stages, { stage: "", state: "whole", script: stored.script, a: stored.a, b: stored.b }];
}

export const nameOf = (stage) => NAMES[stage] ?? stage;

// The stage of the viewer that a row of the table of stages leads to; undefined if none.
export const ofLadder = (stored, stage) =>
  stored && stagesOf(stored).find((each) => each.stage === OF_LADDER[stage]);

const sized = ([width, height]) => `${width}×${height}`;

export const sizes = ({ a, b }) => (sized(a) === sized(b) ? sized(a) : `A ${sized(a)}, B ${sized(b)}`);

// Describes a stage that is shown, for the header.
export function described(source) {
  const name = source.stage ? nameOf(source.stage).toLowerCase() : "final, as the model receives it";
  if (sized(source.a) !== sized(source.b)) return `${name}, ${sizes(source)}: sizes differ, so each is shown as it is, without differences`;
  if (source.state === "crop") return `${name}, ${sizes(source)}: only a part around the worst block was kept`;
  return `${name}, ${sizes(source)}`;
}

// Why there is nothing to show; empty if there is.
export function absence(source, stage) {
  if (!source) return `This image has no ${nameOf(stage).toLowerCase()} pixels.`;
  if (source.script) return "";
  if (source.state === "identical") return `${nameOf(stage)}, ${sizes(source)}: both paths gave identical pixels, so none were kept. Choose another stage.`;
  return `${nameOf(stage)}, ${sizes(source)}: the pixels were not kept, because they do not fit into the limit for images. Choose another stage.`;
}
