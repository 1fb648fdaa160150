// The matrix as the address has it: its metric, and the column each row is compared with. What the
// page holds for another column was computed and written beforehand; nothing is computed here.

import { addCopyButtons } from "./copying.js";
import { DEFAULTS, read, write } from "./link.js";
import { unpack } from "./unpack.js";

const panels = () => [...document.querySelectorAll("#matrix .panel")];

// `link` turns the cells of a panel into links that suit the reference.
export async function addReferences(link) {
  const packed = document.getElementById("references")?.content.textContent;
  const others = packed ? JSON.parse(new TextDecoder().decode(await unpack({ dtype: "uint8", data: packed }))) : [];
  const own = Object.fromEntries(panels().map((panel) => [panel.dataset.metric, panel.innerHTML]));
  const all = [{ name: "", title: "each row’s aligned cell", panels: own }, ...others];
  const select = others.length ? addSelect(all) : null;
  let view = { ...DEFAULTS };
  let shown = all[0];

  const go = (change) => location.replace(write({ ...view, ...read(location.hash), page: "matrix", ...change }));
  const follow = () => {
    view = read(location.hash) ?? view;
    const radio = document.getElementById(`show-${view.metric}`);
    if (radio) radio.checked = true;
    const chosen = all.find(({ name }) => name === view.ref) ?? all[0];
    if (select) select.value = chosen.name;
    if (chosen === shown) return;
    shown = chosen;
    for (const panel of panels()) {
      panel.innerHTML = chosen.panels[panel.dataset.metric];
      addCopyButtons(panel);
      link(panel, chosen.name);
    }
  };
  for (const panel of panels()) link(panel, "");
  for (const radio of document.querySelectorAll(".switch input[name=metric]")) {
    radio.addEventListener("change", () => go({ metric: radio.id.replace("show-", "") }));
  }
  select?.addEventListener("change", () => go({ ref: select.value }));
  addEventListener("hashchange", follow);
  follow();
  if (read(location.hash)?.page === "matrix") document.getElementById("matrix").scrollIntoView({ behavior: "instant" });
}

function addSelect(all) {
  const select = document.createElement("select");
  select.append(...all.map(({ name, title }) => new Option(title, name)));
  const label = Object.assign(document.createElement("label"), { textContent: "Reference " });
  label.append(select);
  const tools = Object.assign(document.createElement("div"), { className: "tools" });
  tools.append(label);
  panels()[0].before(tools);
  return select;
}
