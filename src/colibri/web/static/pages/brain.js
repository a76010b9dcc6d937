// Brain: one cell an expert. Colour: where it lies; its strength: how often it is used; a
// flash: it was selected just now.
import { bytes, plural } from "../lib/format.js";
import { html, useEffect, useRef, useState } from "../lib/html.js";
import { edition, loadAtlas } from "./atlas/load.js";
import { watchRouting } from "../lib/routing.js";
import { Controls } from "./brain/controls.js";
import { Details, describe } from "./brain/details.js";
import { ExpertMap } from "./brain/map.js";
import { BrainState } from "./brain/state.js";
import { Scales } from "./brain/scales.js";
import { Tiers } from "./brain/tiers.js";

export default function BrainPage({ rest }) {
  const [state] = useState(() => new BrainState());
  const view = useRef(null); // the map's grid and player
  const position = useRef("");
  const [, setVersion] = useState(0);
  const [paused, setPaused] = useState(false);
  const [at, setAt] = useState(-1); // the step shown while paused
  const [selected, setSelected] = useState(-1);
  const [hovered, setHovered] = useState(-1);
  const [spoken, setSpoken] = useState("");
  const [atlas, setAtlas] = useState(null);

  useEffect(
    () =>
      watchRouting(
        (event, data) => {
          const steps = state.apply(event, data);
          if (data.step !== undefined) position.current = `${state.run}-${data.step}`;
          view.current?.player.add(steps, performance.now());
          if (event === "experts") view.current?.fit();
          setVersion(state.version);
        },
        () => position.current,
      ),
    [],
  );
  useEffect(() => {
    let current = true;
    loadAtlas(edition.value).then(
      (found) => current && setAtlas(found),
      () => current && setAtlas(null),
    );
    return () => {
      current = false;
    };
  }, [edition.value]);
  useEffect(() => {
    const [, layer, expert] = /^(\d+)\.(\d+)$/.exec(rest) ?? [];
    const found = state.layers.find((each) => each.layer === Number(layer));
    if (found && Number(expert) < found.experts) select(found.start + Number(expert), false);
  }, [rest, state.size > 0]);

  const select = (index, speak = true) => {
    setSelected(index);
    if (view.current) view.current.grid.cursor = index;
    if (speak && index >= 0) setSpoken(describe(state, atlas, index));
  };
  const hover = (index) => {
    setHovered(index);
    if (view.current) view.current.grid.hover = index;
  };
  const show = (next) => {
    const { player } = view.current;
    player.show(next);
    setAt(player.at);
  };
  const toggle = () => {
    const { player } = view.current;
    if (paused) player.resume();
    else player.pause();
    setAt(player.at);
    setPaused(!paused);
  };
  const onKey = (event) => {
    if (event.altKey || event.ctrlKey || event.metaKey) return;
    if (event.key === "p") toggle();
    else if (paused && (event.key === "," || event.key === ".")) show(at + (event.key === "." ? 1 : -1));
    else return;
    event.preventDefault();
  };
  const shown = hovered >= 0 ? hovered : selected;

  return html`<div class="page brain">
    <div class="page-head">
      <h1>Brain</h1>
      <p class="muted">${summary(state)}</p>
    </div>
    <div class="brain-columns">
      <section class="card brain-main" aria-label="Expert map" onKeyDown=${onKey}>
        <${Controls} ...${{ state, paused, at, onToggle: toggle, onShow: show }} />
        <${ExpertMap} ...${{ state, view, selected, onSelect: select, onHover: hover }} />
        <${Scales} state=${state} />
        <p class="sr-only" aria-live="polite" id="brain-spoken">${spoken}</p>
      </section>
      <aside class="brain-side" aria-label="About the experts">
        <${Tiers} state=${state} />
        <${Details} ...${{ state, atlas, index: shown, pinned: hovered < 0, onSelect: select }} />
      </aside>
    </div>
  </div>`;
}

function summary(state) {
  if (!state.size) return "Waiting for the server.";
  const each = state.layers.reduce((sum, layer) => sum + layer.slot_bytes * layer.experts, 0);
  return (
    `${plural(state.size, "expert")} in ${plural(state.layers.length, "layer")}, ${bytes(each)} in all; ` +
    `a token selects ${state.expertsPerToken} of each layer`
  );
}
