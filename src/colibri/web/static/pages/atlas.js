// Atlas: the experts as a cloud in which those for the same topics lie together.
import { count, percent, plural } from "../lib/format.js";
import { html, useEffect, useMemo, useState } from "../lib/html.js";
import { isEnter } from "../lib/keys.js";
import { useTouch } from "../lib/media.js";
import { Icon } from "../ui/icons.js";
import { Notice } from "../ui/parts.js";
import { Builder } from "./atlas/build.js";
import { Cloud } from "./atlas/cloud.js";
import { Expert, Found } from "./atlas/expert.js";
import { Legend } from "./atlas/legend.js";
import { edition, loadAtlas } from "./atlas/load.js";

export default function AtlasPage({ rest }) {
  const [atlas, setAtlas] = useState(null);
  const [failure, setFailure] = useState(null);
  const [selected, setSelected] = useState(-1);
  const [hovered, setHovered] = useState(-1);
  const [text, setText] = useState("");
  const [layer, setLayer] = useState("");
  const [topic, setTopic] = useState(-1);
  const touch = useTouch();

  useEffect(() => {
    let current = true;
    setFailure(null);
    loadAtlas(edition.value).then(
      (found) => {
        if (!current) return;
        setAtlas(found);
      },
      (error) => current && setFailure(error),
    );
    return () => {
      current = false;
    };
  }, [edition.value]);
  useEffect(() => {
    const [, ofLayer, expert] = /^(\d+)\.(\d+)$/.exec(rest) ?? [];
    if (atlas && expert !== undefined) setSelected(atlas.index(Number(ofLayer), Number(expert)));
  }, [rest, atlas]);

  const found = useMemo(() => (atlas ? atlas.search(text) : []), [atlas, text]);
  /** Those that stand out: null, all alike. */
  const lit = useMemo(() => {
    if (!atlas || (text.trim() === "" && layer === "" && topic < 0)) return null;
    const searched = text.trim() === "" ? null : new Set(found);
    return new Set(
      atlas.experts.flatMap((expert, i) =>
        (searched === null || searched.has(i)) &&
        (layer === "" || expert.layer === Number(layer)) &&
        (topic < 0 || (expert.top === topic && expert.specialist))
          ? [i]
          : [],
      ),
    );
  }, [atlas, found, text, layer, topic]);

  const hits = found.filter((index) => lit.has(index));
  const pick = (index) => {
    setSelected(index);
    setHovered(-1); // what the pointer rests on was not asked for
  };
  useEffect(() => {
    if (text.trim()) pick(hits.length === 1 ? hits[0] : -1);
  }, [text, layer, topic]);

  if (!atlas) return html`<${Absent} failure=${failure} />`;
  const shown = hovered >= 0 ? hovered : selected;
  return html`<div class="page atlas">
    <div class="page-head">
      <h1>Atlas</h1>
      <p class="muted">${summary(atlas)}</p>
    </div>
    <div class="atlas-columns">
      <section class="card atlas-main" aria-label="Cloud of experts">
        <div class="atlas-tools">
          <label class="search">
            <${Icon} name="search" />
            <span class="sr-only">Search: a topic, a token, or layer/expert</span>
            <input
              type="search"
              class="input"
              placeholder="topic, token, 3/17"
              title="A topic, a token, or layer/expert such as 3/17"
              value=${text}
              onInput=${(event) => setText(event.target.value)}
              onKeyDown=${(event) => isEnter(event) && hits.length > 0 && pick(hits[0])}
            />
          </label>
          <label class="row small">
            Layer
            <select class="select" value=${layer} onChange=${(event) => setLayer(event.target.value)}>
              <option value="">all</option>
              ${atlas.layers.map((each) => html`<option value=${each}>${each}</option>`)}
            </select>
          </label>
          <span class="small muted num" role="status">
            ${lit ? `${count(lit.size)} of ${plural(atlas.experts.length, "expert")}` : ""}
          </span>
        </div>
        <${Cloud} ...${{ atlas, lit, selected, onSelect: setSelected, onHover: setHovered }} />
        <p class="small muted">
          ${measured(atlas)} ${touch ? "Drag it to turn it, press + and − to zoom." : "Drag it or use the arrow keys to turn it; use the wheel or + and − to zoom."}
        </p>
      </section>
      <aside class="atlas-side" aria-label="Topics and expert">
        ${text.trim() && html`<${Found} ...${{ atlas, text: text.trim(), hits, selected, onSelect: pick }} />`}
        <${Legend} ...${{ atlas, topic, onTopic: setTopic }} />
        <${Expert} ...${{ atlas, index: shown, onSelect: pick }} />
      </aside>
    </div>
  </div>`;
}

function summary(atlas) {
  const special = atlas.experts.filter((expert) => expert.specialist).length;
  return (
    `${plural(atlas.experts.length, "expert")}, among them ${plural(special, "specialist")}. ` +
    "Specialists lie far out in the direction of their topic, generalists in the middle"
  );
}

function measured(atlas) {
  const axes = atlas.variance.map((share) => percent(share, 0)).join(", ");
  return (
    `Measured on ${plural(atlas.tokens, "token")} of ${plural(atlas.topics.length, "topic")}; ` +
    `the three axes show ${axes} of the differences between experts.`
  );
}

function Absent({ failure }) {
  return html`<div class="page atlas">
    <div class="page-head"><h1>Atlas</h1></div>
    <${Why} failure=${failure} />
  </div>`;
}

function Why({ failure }) {
  if (failure === null) return html`<p class="muted" role="status">Loading.</p>`;
  if (failure.code === "no_atlas") return html`<${Builder} problem="" />`;
  if (failure.code === "atlas_unreadable") return html`<${Builder} problem=${failure.message} />`;
  return html`<${Notice} kind=${failure.status === 404 ? "" : "danger"}><p>${failure.message}</p></${Notice}>`;
}
