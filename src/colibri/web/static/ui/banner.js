// What to know of the connection, and only then.
import { retryNow, reason, retryAt, state } from "../lib/live.js";
import { html, useEffect, useState } from "../lib/html.js";
import { Icon } from "./icons.js";

const SAYS = {
  loading: "The model is being loaded.",
  slow: "The server is slow to answer.",
  lost: "The server cannot be reached.",
  stopping: "The server is stopping; this page waits for the next one.",
};

export function Banner() {
  const says = state.value === "refused" ? `The server refused the connection: ${reason.value}` : SAYS[state.value];
  const retries = state.value === "lost" || state.value === "stopping" || state.value === "refused";
  const bad = state.value === "lost" || state.value === "refused";
  return html`<div aria-live="polite" class=${says ? `banner ${bad ? "bad" : ""}` : ""}>
    ${
      says &&
      html`<${Icon} name="warn" /><span>${says}</span>${retries && html`<${Countdown} />`}
        ${retries && html`<button type="button" class="button tiny" onClick=${retryNow}>Try now</button>`}`
    }
  </div>`;
}

/** Not read out every second. */
function Countdown() {
  const [, tick] = useState(0);
  useEffect(() => {
    const timer = setInterval(() => tick((n) => n + 1), 500);
    return () => clearInterval(timer);
  }, []);
  const due = retryAt.value;
  const left = due === null ? 0 : Math.max(0, Math.ceil((due - Date.now()) / 1_000));
  return html`<span class="num" aria-hidden="true">${left > 0 ? `next try in ${left} s` : "trying"}</span>`;
}
