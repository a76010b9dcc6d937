// A column of a page that lies over it where there is no room beside it.
import { html, useLayoutEffect, useRef } from "../lib/html.js";

/** over: modal; a press beside it closes it, the focus stays in it and goes back. Escape closes it
    either way. */
export function Drawer({ label, name, over, onClose, children }) {
  const ref = useRef(null);
  // A layout effect: closed before its element is gone, the dialog gives the focus back.
  useLayoutEffect(() => {
    const dialog = ref.current;
    if (over) dialog.showModal();
    else dialog.setAttribute("open", "");
    return () => {
      if (over) dialog.close();
      else dialog.removeAttribute("open");
    };
  }, [over]);
  const onCancel = (event) => {
    event.preventDefault();
    onClose();
  };
  const onKeyDown = (event) => !over && event.key === "Escape" && onClose();
  // Only what lies beside the inside is the dialog itself.
  const onClick = (event) => over && event.target === ref.current && onClose();
  return html`<dialog class=${`drawer ${over ? "over" : ""}`} ref=${ref} aria-label=${label} onCancel=${onCancel} onKeyDown=${onKeyDown} onClick=${onClick}>
    <div class=${name}>${children}</div>
  </dialog>`;
}
