// Bundles main.js into ../report.js and writes down, in ../report.js.json, what it was made of.
// npm ci --ignore-scripts && npm run build; users of alignkit never need Node.

import { createHash } from "node:crypto";
import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { build } from "esbuild";

const here = new URL(".", import.meta.url);
const sha256 = (...parts) => parts.reduce((hash, part) => hash.update(part), createHash("sha256")).digest("hex");
const pinned = JSON.parse(readFileSync(new URL("package.json", here))).devDependencies;
const licence = (name) => readFileSync(new URL(`node_modules/${name}/LICENSE`, here), "utf8").trim();

const banner = `/*! alignkit report, Apache-2.0. Bundled: preact ${pinned.preact} (MIT), htm ${pinned.htm} (Apache-2.0); see report.js.LICENSES. */`;
// the minifier leaves templates alone, in which htm drops what surrounds a line end
const unindented = {
  name: "unindented",
  setup: ({ onLoad }) => onLoad({ filter: /assets.src.\w+\.js$/ }, ({ path }) => ({ contents: readFileSync(path, "utf8").replace(/\n +/g, "\n") })),
};
const { outputFiles } = await build({
  entryPoints: [new URL("main.js", here).pathname],
  bundle: true,
  plugins: [unindented],
  minify: true,
  write: false,
  format: "iife",
  target: ["es2021"],
  charset: "utf8",
  legalComments: "none",
  banner: { js: banner },
});
const script = outputFiles[0].text;
const sources = readdirSync(here).filter((name) => name.endsWith(".js")).sort();
const made = {
  sha256: sha256(script),
  sources: sha256(...sources.map((name) => readFileSync(new URL(name, here)))),
  tools: pinned,
};
writeFileSync(new URL("../report.js", here), script);
writeFileSync(new URL("../report.js.json", here), `${JSON.stringify(made, null, 1)}\n`);
writeFileSync(
  new URL("../report.js.LICENSES", here),
  ["preact", "htm"].map((name) => `${name} ${pinned[name]}\n\n${licence(name)}\n`).join("\n\n"),
);
console.log(`report.js: ${Buffer.byteLength(script)} bytes`);
