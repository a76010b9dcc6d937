// Small parts that pages share.
import { html, useEffect, useRef, useState } from "../lib/html.js";
import { Icon } from "./icons.js";

/** icon, label; bare: the label is only read out (and shown as a tooltip). */
export function Button({ icon, label, bare = false, kind = "", ...rest }) {
  const named = bare ? { "aria-label": label, title: label } : {};
  return html`<button type="button" class=${`button ${kind} ${bare ? "square" : ""}`} ...${named} ...${rest}>
    ${icon && html`<${Icon} name=${icon} />`}${bare ? null : label}
  </button>`;
}

export function CopyButton({ text, label = "Copy" }) {
  const [copied, setCopied] = useState(false);
  useEffect(() => {
    if (!copied) return undefined;
    const timer = setTimeout(() => setCopied(false), 1_500);
    return () => clearTimeout(timer);
  }, [copied]);
  const copy = async () => setCopied(await copyText(typeof text === "function" ? text() : text));
  return html`<${Button}
    kind="plain tiny"
    icon=${copied ? "check" : "copy"}
    label=${copied ? "Copied" : label}
    bare
    onClick=${copy}
  />`;
}

/** Whether it was copied. Away from localhost browsers have the clipboard only behind HTTPS. */
async function copyText(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    const area = document.createElement("textarea");
    area.value = text;
    area.className = "sr-only";
    document.body.append(area);
    area.select();
    const done = document.execCommand("copy");
    area.remove();
    return done;
  }
}

/** share: 0 to 1. */
export function Meter({ share, label, color }) {
  const bounded = Math.max(0, Math.min(1, Number.isFinite(share) ? share : 0));
  const style = { width: `${bounded * 100}%`, ...(color ? { background: color } : {}) };
  return html`<div
    class="meter"
    role="meter"
    aria-label=${label}
    aria-valuemin="0"
    aria-valuemax="100"
    aria-valuenow=${Math.round(bounded * 100)}
  >
    <span style=${style}></span>
  </div>`;
}

export function Notice({ kind = "", icon = "warn", children, ...rest }) {
  return html`<div class=${`notice ${kind}`} ...${rest}>
    <${Icon} name=${icon} />
    <div>${children}</div>
  </div>`;
}

/** A modal dialog; Escape and a click beside it close it. */
export function Dialog({ open, onClose, title, children }) {
  const ref = useRef(null);
  useEffect(() => {
    const dialog = ref.current;
    if (open && !dialog.open) dialog.showModal();
    if (!open && dialog.open) dialog.close();
  }, [open]);
  const onClick = (event) => event.target === ref.current && onClose();
  const onCancel = (event) => {
    event.preventDefault();
    onClose();
  };
  return html`<dialog ref=${ref} aria-label=${title} onClick=${onClick} onCancel=${onCancel}>
    ${open && html`<div class="dialog-form"><h2>${title}</h2>${children}</div>`}
  </dialog>`;
}

/** Save text as a file. */
export function download(name, text, type = "application/json") {
  const url = URL.createObjectURL(new Blob([text], { type }));
  const link = document.createElement("a");
  link.href = url;
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(url), 10_000);
}
