import { html } from "../lib/html.js";

export default function Page() {
  return html`<div class="page"><div class="page-head"><h1>brio</h1></div></div>`;
}
