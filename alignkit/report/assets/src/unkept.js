// Dialog of an image whose pixels the run did not keep: its numbers, and the command that compares it.

import { useLayoutEffect, useRef } from "preact/hooks";
import { CopyCommand, quoted } from "./copying.js";
import { Facts, middle } from "./facts.js";
import { html } from "./html.js";

export function Unkept({ run, view, row, neighbour, close }) {
  const dialog = useRef();
  useLayoutEffect(() => dialog.current.showModal(), []);
  const repeat = run.commands[view.pair] && run.commands[view.pair] + quoted(view.id);
  const onKey = (event) => {
    const step = { j: 1, k: -1 }[event.key];
    if (!step || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    neighbour(step);
  };
  return html`<dialog class="viewer unkept" ref=${dialog} aria-label="Image without pixels" onClose=${close} onKeyDown=${onKey}>
    <header>
      <h2 title=${view.id}>${middle(view.id, 60)}</h2>
      <p>${row?.label ? html`label <span title=${row.label}>${middle(row.label, 30)}</span>` : ""}</p>
      <span class="spacer"></span>
      <button type="button" title="key k" onClick=${() => neighbour(-1)}>Previous</button>
      <button type="button" title="key j" onClick=${() => neighbour(1)}>Next</button>
      <button type="button" title="key Esc" onClick=${() => dialog.current.close()}>Close</button>
    </header>
    <div class="body">
      <div class="why">
        <h3>The pixels of this image are not in the report</h3>
        ${reason(row?.comparison)}
        ${repeat && html`<p>This command compares the two paths on it, stage by stage:</p><${Command} text=${repeat}/>`}
        ${row?.comparison.command && html`<p>This one runs the cell again, and the one it is compared with:</p><${Command} text=${row.comparison.command}/>`}
      </div>
      <${Facts} run=${run} view=${view} pair=${null} row=${row} stored=${undefined} blocks=${[]} block=${-1} act=${{}}/>
    </div>
  </dialog>`;
}

function reason(comparison) {
  if (comparison?.same) return html`<p>Both cells of this comparison were served the same pixels; only the runtime differs.</p>`;
  if (comparison && !comparison.pair) return html`<p>This runtime preprocesses the images itself; the run has no pixels of it.</p>`;
  return html`<p>A run keeps pixels of the images that changed in most models, up to a limit for each pair of paths (<code>report: {changed: …}</code> in the experiment), of the largest differences, and of a few drawn by chance; a report may show fewer.</p>`;
}

const Command = ({ text }) => html`<pre class="command" tabIndex="0"><code>${text}</code></pre><p><${CopyCommand} text=${text}/></p>`;
