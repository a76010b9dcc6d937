// Where the page begins.
import { html, render } from "./lib/html.js";
import { start } from "./lib/live.js";
import { Shell } from "./ui/shell.js";

render(html`<${Shell} />`, document.getElementById("app"));
start();
