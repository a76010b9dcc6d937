// Model: the plan against what happened, where experts lie, the machine, settings, who is served.
import { getJson } from "../lib/api.js";
import { bytes, count, percent, plural } from "../lib/format.js";
import { html, useEffect, useState } from "../lib/html.js";
import { epoch, status } from "../lib/live.js";
import { Meter, Notice } from "../ui/parts.js";
import { Memory } from "./model/memory.js";
import { Outcome } from "./model/outcome.js";
import { Requests } from "./model/requests.js";

const EVERY = 3; // seconds, at most, while something happens

export default function ModelPage() {
  const [facts, setFacts] = useState(null); // {plan, model, experts}
  const [failure, setFailure] = useState("");
  const [asked, setAsked] = useState(0);
  const total = status.value?.total;
  const busy = Math.floor((status.value?.at ?? 0) / (EVERY * 1000));
  const tokens = total ? total.prefill_tokens + total.decode_tokens : 0;
  const [seen, setSeen] = useState({ busy: 0, tokens: -1 });
  if (busy !== seen.busy && tokens !== seen.tokens) setSeen({ busy, tokens });

  useEffect(() => {
    const controller = new AbortController();
    const paths = ["plan", "model", "experts"].map((name) => getJson(`v1/colibri/${name}`, controller));
    Promise.all(paths).then(
      ([plan, model, experts]) => {
        setFacts({ plan, model, experts });
        setFailure("");
      },
      (error) => error.name !== "AbortError" && setFailure(error.message),
    );
    return () => controller.abort();
  }, [epoch.value, asked, seen]);

  return html`<div class="page model">
    <div class="page-head">
      <h1>Model</h1>
      <p class="muted">${facts?.model.load_line ?? ""}</p>
    </div>
    ${failure && html`<${Notice} kind="danger"><p>${failure}</p></${Notice}>`}
    ${
      facts
        ? html`<div class="model-columns">
            <div class="stack">
              <${Outcome} model=${facts.model} onMeasured=${() => setAsked(asked + 1)} />
              <${Memory} plan=${facts.plan} memory=${facts.model.memory} />
            </div>
            <div class="stack">
              <${Requests} />
              <${TierBars} ...${facts} />
              <${Usage} usage=${facts.model.usage} pins=${facts.model.pins} />
              <${Facts} title="Machine" rows=${machineRows(facts.model)} />
              <${Facts} title="Settings" rows=${settingRows(facts.model)} />
            </div>
          </div>`
        : html`<div class="empty"><p>${failure ? "" : "Loading."}</p></div>`
    }
  </div>`;
}

function TierBars({ plan, experts }) {
  const size = new Map(plan.layers.map((layer) => [layer.layer, layer.slot_bytes]));
  let [all, allBytes, held, heldBytes] = [0, 0, 0, 0];
  for (const layer of experts.layers) {
    all += layer.experts;
    allBytes += layer.experts * size.get(layer.layer);
    held += layer.resident_count;
    heldBytes += layer.resident_count * size.get(layer.layer);
  }
  const slots = plan.layers.reduce((sum, layer) => sum + layer.slots, 0);
  const rows = [
    ["in memory", held, heldBytes, "--tier-ram"],
    ["on disk", all - held, allBytes - heldBytes, "--tier-disk"],
  ];
  return html`<section class="card padded" aria-label="Experts by tier">
    <h2>Experts</h2>
    ${rows.map(
      ([name, n, nbytes, colour]) => html`<div class="tier" key=${name}>
        <div class="row small">
          <span>${name}</span><span class="spacer"></span>
          <span class="num">${`${count(n)}, ${bytes(nbytes)}`}</span>
        </div>
        <${Meter} share=${n / all} color=${`var(${colour})`} label=${`${name}: ${percent(n / all, 0)}`} />
      </div>`,
    )}
    <p class="small muted">${`${plural(slots, "slot")} for ${plural(all, "expert")} in ${plural(experts.layers.length, "layer")}; cache policy ${plan.policy}`}</p>
  </section>`;
}

function Usage({ usage, pins }) {
  return html`<section class="card padded" aria-label="Usage and pins">
    <h2>Usage and pins</h2>
    <p class="small">
      ${`${plural(usage.tokens, "token")} counted, ${plural(usage.selections, "selection")}; a selection loses half its weight after ${plural(usage.half_life_tokens, "token")}.`}
    </p>
    ${usage.hottest.map(
      ({ part, share }) => html`<div class="tier" key=${part}>
        <div class="row small">
          <span>${`the hottest ${percent(part, 0)} of each layer`}</span><span class="spacer"></span>
          <span class="num">${percent(share, 0)}</span>
        </div>
        <${Meter} share=${share} label=${`share of the hottest ${percent(part, 0)}`} />
      </div>`,
    )}
    <p class="small muted">
      ${pins.experts ? `${plural(pins.experts, "expert")} pinned, ${bytes(pins.bytes)} of ${bytes(pins.most_bytes)} at most.` : "No expert is pinned."}
      ${usage.enough_to_pin ? "" : " Too few were counted so far to choose which to pin."}
      ${usage.path ? ` The counts are kept in ${usage.path}.` : " The counts are not kept between runs."}
    </p>
  </section>`;
}

function Facts({ title, rows }) {
  return html`<section class="card padded" aria-label=${title}>
    <h2>${title}</h2>
    <dl class="facts small">
      ${rows.map(([name, value]) => html`<dt>${name}</dt><dd>${value}</dd>`)}
    </dl>
  </section>`;
}

function machineRows({ machine, version, path, drives }) {
  const limit = machine.cgroup_memory_bytes;
  return [
    ["processor", machine.cpu_model ?? machine.machine],
    ["kernels", `${machine.cpu_path} on ${plural(machine.threads, "thread")}, ${plural(machine.physical_cores, "core")}`],
    ["memory", `${bytes(machine.memory_bytes)}, ${bytes(machine.usable_bytes)} free${limit ? `, limit ${bytes(limit)}` : ""}`],
    ["disk", [machine.disk, machine.file_system, machine.rotational ? "rotational" : ""].filter(Boolean).join(", ") || "unknown"],
    ["readers", count(machine.readers)],
    ...drives.map((drive) => [
      drive.directory,
      `${bytes(drive.nbytes)} read${drive.failures ? `, ${plural(drive.failures, "failure")}` : ""}`,
    ]),
    ["model", path],
    ["colibri", version],
  ];
}

function settingRows({ settings }) {
  return Object.entries(settings)
    .filter(([, value]) => value !== null && !(Array.isArray(value) && value.length === 0))
    .map(([name, value]) => [`--${name.replaceAll("_", "-")}`, Array.isArray(value) ? value.join(", ") : String(value)]);
}
