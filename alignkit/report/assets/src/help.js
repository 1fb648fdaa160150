// The keys, in a dialog over the page or over the viewer.

import { render } from "preact";
import { useLayoutEffect, useRef } from "preact/hooks";
import { element } from "./element.js";
import { html } from "./html.js";
import { HELP, PAGE_HELP } from "./keys.js";

const rows = (keys) => keys.map(([key, what]) => html`<tr><th scope="row">${key}</th><td>${what}</td></tr>`);

export function Help({ close, onPage = false }) {
  const dialog = useRef();
  useLayoutEffect(() => dialog.current.showModal(), []);
  return html`<dialog class="help" ref=${dialog} aria-label="Keys" onClose=${close} onKeyDown=${(event) => event.stopPropagation()}>
    <h2>Keys</h2>
    ${onPage && html`<table><caption>On the page</caption><tbody>${rows(PAGE_HELP)}</tbody></table>`}
    <table><caption>In the viewer</caption><tbody>${rows(HELP)}</tbody></table>
    <button type="button" onClick=${() => dialog.current.close()}>Close</button>
  </dialog>`;
}

export function showHelp() {
  const holder = document.body.appendChild(element("div"));
  const close = () => {
    render(null, holder);
    holder.remove();
  };
  render(html`<${Help} close=${close} onPage/>`, holder);
}
