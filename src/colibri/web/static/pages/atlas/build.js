// The atlas of a model that has none is built on the server, which tells how far it is.
import { ApiError, openStream } from "../../lib/api.js";
import { count, plural, remaining } from "../../lib/format.js";
import { html, signal, useEffect, useRef } from "../../lib/html.js";
import { Button, Meter, Notice } from "../../ui/parts.js";
import { renew } from "./load.js";

/** What the server said last of the one that is being built; null: none is. It goes on while other
 * pages are shown. */
const building = signal(null);
/** Why none came of it, or "". */
const failure = signal("");

let controller = null;

async function build() {
  controller = new AbortController();
  failure.value = "";
  building.value = { state: "asking", prompts_done: 0, prompts_total: 0 };
  try {
    await listen(controller.signal);
    renew();
  } catch (error) {
    if (error?.name !== "AbortError") failure.value = error.message || String(error);
  } finally {
    building.value = null;
  }
}

async function listen(signal) {
  for await (const { event, data } of openStream("v1/colibri/atlas/build", {}, { signal })) {
    if (data === undefined) continue;
    const told = JSON.parse(data);
    if (event === "done") return;
    if (event === "error") throw new ApiError(500, told.message, { code: told.code });
    building.value = told;
  }
  throw new ApiError(0, "the connection broke off before the atlas was built");
}

/** problem: what is wrong with the one that is there; "": there is none. */
export function Builder({ problem }) {
  const told = building.value;
  const section = useRef(null);
  const before = useRef(told !== null);
  useEffect(() => {
    // One button makes way for the other: whoever pressed it with the keyboard is not lost.
    if (before.current !== (told !== null) && document.activeElement === document.body) {
      section.current.querySelector("button").focus();
    }
    before.current = told !== null;
  }, [told !== null]);
  return html`<section class="card padded atlas-build" aria-label="Build the atlas" ref=${section}>
    ${problem && html`<${Notice} kind="danger"><p>${problem}</p></${Notice}>`}
    ${failure.value && html`<${Notice} kind="danger" role="alert"><p>${failure.value}</p></${Notice}>`}
    ${told === null ? html`<${Offer} anew=${problem !== ""} />` : html`<${Progress} ...${told} />`}
  </section>`;
}

function Offer({ anew }) {
  return html`<p>${anew ? "" : "This model has no atlas yet. "}To build one, the model reads short texts on ten topics,
      about 6,000 tokens, and notes which experts they go to.</p>
    <p class="small muted">
      A small model takes seconds to a few minutes, one that is read from a slow disk far longer. Answers come first: the
      reading waits for them.
    </p>
    <div class="row">
      <${Button} key="build" kind="primary" label=${anew ? "Build it anew" : "Build the atlas"} onClick=${build} />
    </div>`;
}

const SAYS = {
  asking: "Asking the server",
  waiting: "Waiting until no answer is being made",
  reading: "Reading texts",
};

function Progress({ state, prompts_done: done, prompts_total: total, eta_seconds: eta }) {
  const left = Number.isFinite(eta) && done < total ? `, about ${remaining(eta)} left` : "";
  return html`<p role="status">${SAYS[state]}</p>
    <${Meter} share=${done / total} label="Texts read" />
    <p class="small muted num">${total ? `${count(done)} of ${plural(total, "text")}${left}` : ""}</p>
    <p class="small muted">Other pages can be looked at meanwhile. If this tab is closed, the building ends.</p>
    <div class="row">
      <${Button} key="cancel" label="Cancel" onClick=${() => controller.abort()} />
    </div>`;
}
