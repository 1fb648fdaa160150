// Buttons that copy a table as CSV or Markdown, or a command.

import { useEffect, useRef } from "preact/hooks";
import { element } from "./element.js";
import { html } from "./html.js";

const text = (cell) => {
  const copy = cell.cloneNode(true);
  copy.querySelectorAll("svg").forEach((each) => each.remove());
  copy.querySelectorAll("small").forEach((each) => each.before(" "));
  // the mark of a note: a simulated number keeps it
  copy.querySelectorAll("sup").forEach((each) => each.replaceWith(` (${each.textContent})`));
  return copy.textContent.replace(/\s+/g, " ").trim();
};

// Every cell in its place; a cell that spans is repeated.
export function grid(table) {
  const rows = [];
  // rows that a filter hides stay out
  [...table.rows].filter((row) => !row.hidden).forEach((row, y) => {
    rows[y] ??= [];
    let x = 0;
    for (const cell of row.cells) {
      while (rows[y][x] !== undefined) x++;
      for (let down = 0; down < cell.rowSpan; down++) {
        rows[y + down] ??= [];
        for (let right = 0; right < cell.colSpan; right++) rows[y + down][x + right] = text(cell);
      }
    }
  });
  return rows;
}

// One header row: the header rows joined, column by column.
function joined(table) {
  const rows = grid(table);
  const heads = table.tHead.rows.length;
  const head = rows[0].map((_, x) => [...new Set(rows.slice(0, heads).map((row) => row[x]))].filter(Boolean).join(" "));
  return [head, ...rows.slice(heads)];
}

export const csv = (table) =>
  joined(table).map((row) => row.map((each) => (/[",\n]/.test(each) ? `"${each.replace(/"/g, '""')}"` : each)).join(",")).join("\n");

export const markdown = (table) => {
  const [head, ...rows] = joined(table).map((row) => `| ${row.map((each) => each.replace(/\|/g, "\\|")).join(" | ")} |`);
  return [head, head.replace(/[^|]+/g, " --- "), ...rows].join("\n");
};

// As a POSIX shell takes it for one word.
export const quoted = (word) => (/^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replace(/'/g, `'"'"'`)}'`);

export function button(name, content) {
  const made = element("button", { type: "button", textContent: name });
  made.addEventListener("click", async () => {
    try {
      await navigator.clipboard.writeText(content());
      made.textContent = "Copied";
    } catch {
      made.textContent = "Blocked by the browser";
    }
    setTimeout(() => (made.textContent = name), 1500);
  });
  return made;
}

// The button that copies a command, in a template.
export function CopyCommand({ text }) {
  const holder = useRef();
  useEffect(() => holder.current.replaceChildren(button("Copy command", () => text)), [text]);
  return html`<span ref=${holder}></span>`;
}

// Under each table and command that has none yet.
export function addCopyButtons(root) {
  for (const table of root.querySelectorAll(".scroll table")) {
    const buttons = [button("Copy CSV", () => csv(table)), button("Copy Markdown", () => markdown(table))];
    add(table.closest(".scroll"), buttons);
  }
  for (const command of root.querySelectorAll("pre.command")) {
    add(command, [button("Copy command", () => command.textContent)]);
  }
}

function add(to, buttons) {
  if (!to.nextElementSibling?.matches(".copy")) to.after(element("div", { className: "copy" }, ...buttons));
}
