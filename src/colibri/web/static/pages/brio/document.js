// The document: pasted, dropped or chosen.
import { plural } from "../../lib/format.js";
import { html, useRef, useState } from "../../lib/html.js";
import { Button, Notice } from "../../ui/parts.js";
import { KINDS, textOf } from "./model.js";

export function Document({ text, name, onChange }) {
  const input = useRef(null);
  const [over, setOver] = useState(false);
  const [refused, setRefused] = useState(null);
  /** By hand: it is not that file's any more. */
  const write = (next) => {
    setRefused(null);
    onChange(next);
  };
  const take = async (files) => {
    setRefused(null);
    try {
      if (files.length > 1) throw new Error("choose one document at a time");
      if (files.length === 1) onChange(await textOf(files[0]), files[0].name);
    } catch (error) {
      setRefused(error.message);
    }
  };
  const onDrop = (event) => {
    event.preventDefault();
    setOver(false);
    const { files } = event.dataTransfer;
    const dropped = event.dataTransfer.getData("text/plain");
    if (files.length) take([...files]);
    else if (dropped) write(dropped);
  };
  const onDragOver = (event) => {
    event.preventDefault();
    setOver(true);
  };
  return html`<section class=${`document card ${over ? "over" : ""}`} aria-label="Document" onDrop=${onDrop} onDragOver=${onDragOver} onDragLeave=${() => setOver(false)}>
    <header class="row">
      <h2>Document</h2>
      <span class="muted small document-name">${name ?? ""}</span>
      <span class="spacer"></span>
      ${text && html`<${Button} kind="plain tiny" icon="close" label="Remove the document" bare onClick=${() => write("")} />`}
      <${Button} kind="tiny" icon="doc" label="Open a file" onClick=${() => input.current.click()} />
      <input
        ref=${input}
        type="file"
        hidden
        aria-label="Document file"
        accept=${KINDS.join(",")}
        onChange=${(event) => {
          take([...event.currentTarget.files]);
          event.currentTarget.value = "";
        }}
      />
    </header>
    ${refused && html`<${Notice} kind="danger" role="alert">${refused}<//>`}
    <textarea
      class="document-text"
      aria-label="Text of the document"
      placeholder=${`Paste a text, or open or drop a file (${KINDS.join(", ")})`}
      spellcheck="false"
      value=${text}
      onInput=${(event) => write(event.currentTarget.value)}
    ></textarea>
    ${text && html`<p class="muted small num">${plural(text.length, "character")}</p>`}
  </section>`;
}
