// Profile: where the time of the last turns went. Phases add up to the wall time.
import { getJson } from "../lib/api.js";
import { bytes, count, percent, rate, seconds, when } from "../lib/format.js";
import { html, useEffect, useRef, useState } from "../lib/html.js";
import { epoch, status } from "../lib/live.js";
import { Meter, Notice } from "../ui/parts.js";
import { Layers } from "./profile/layers.js";
import { PhaseLegend, PhaseTable, StackedBar } from "./profile/phases.js";
import { Recent } from "./profile/recent.js";
import { StepTimeline } from "./profile/step.js";

const EVERY_MS = 1_500;

export default function ProfilePage() {
  const [profile, setProfile] = useState(null);
  const [failure, setFailure] = useState("");
  const [chosen, setChosen] = useState(null); // a turn's number; null: the last one
  const [even, setEven] = useState(false);
  const total = status.value?.total;
  const tokens = total ? total.prefill_tokens + total.decode_tokens : 0;
  const stamp = useStamp(`${epoch.value} ${tokens}`);

  useEffect(() => {
    const controller = new AbortController();
    getJson("v1/colibri/profile", controller).then(
      (found) => {
        setProfile(found);
        setFailure("");
      },
      (error) => error.name !== "AbortError" && setFailure(error.message),
    );
    return () => controller.abort();
  }, [stamp]);

  const turns = [...(profile?.turns ?? [])].reverse();
  const turn = turns.find((each) => each.turn === chosen) ?? turns[0];
  return html`<div class="page profile">
    <div class="page-head">
      <h1>Profile</h1>
      <p class="muted">Where the time went in the last turns. A turn is a question with its answer.</p>
    </div>
    ${failure && html`<${Notice} kind="danger"><p>${failure}</p></${Notice}>`}
    ${
      turn
        ? html`<${Figures} turn=${turn} />
            <section class="card padded turns" aria-label="Turns">
              <div class="row">
                <h2>Turns</h2>
                <span class="spacer"></span>
                <label class="check">
                  <input
                    type="checkbox"
                    checked=${even}
                    onChange=${(event) => setEven(event.target.checked)}
                  />
                  as shares
                </label>
              </div>
              <${PhaseLegend} />
              <${Turns} ...${{ turns, turn, even, onChoose: setChosen }} />
              <p class="small muted">
                ${`The wait for reads is measured in every step. The other phases are estimated from sampled steps: the first of its kind in each turn, and one in ${profile.every} of all.`}
              </p>
            </section>
            <div class="profile-columns">
              <section class="card padded" aria-label=${`Turn ${turn.turn}`}>
                <h2>Turn ${turn.turn}</h2>
                <${PhaseTable} turn=${turn} />
                <${Disk} turn=${turn} />
              </section>
              <${Layers} turn=${turn} stamp=${stamp} />
            </div>
            <${StepTimeline} step=${profile.step} />`
        : html`<div class="empty"><p>${profile ? "No question has been asked yet." : "Loading."}</p></div>`
    }
    <${Recent} />
  </div>`;
}

/** The key, but while it goes on changing no more often than every second and a half. */
function useStamp(key) {
  const [kept, setKept] = useState(key);
  const latest = useRef(key);
  latest.current = key;
  useEffect(() => {
    if (key === kept) return undefined;
    const timer = setTimeout(() => setKept(latest.current), EVERY_MS);
    return () => clearTimeout(timer);
  }, [kept, key === kept]);
  return kept;
}

function Turns({ turns, turn, even, onChoose }) {
  const longest = Math.max(...turns.map((each) => each.seconds), 1e-9);
  return html`<div class="turn-rows">
    ${turns.map(
      (each) => html`<button
        key=${each.turn}
        type="button"
        class="turn-row"
        aria-pressed=${each.turn === turn.turn}
        onClick=${() => onChoose(each.turn)}
      >
        <span class="num small">${each.turn}</span>
        <span class="small muted turn-when">${when(each.unix * 1000)}</span>
        <${StackedBar}
          phases=${each.phases}
          whole=${even ? each.seconds : longest}
          label=${`turn ${each.turn}`}
        />
        <span class="num small">${seconds(each.seconds)}</span>
        <span class="num small muted turn-rate">${tokensText(each)}</span>
      </button>`,
    )}
  </div>`;
}

function tokensText({ prefill, decode }) {
  return `${count(prefill.rows)} read, ${count(decode.rows)} written`;
}

function Figures({ turn }) {
  const { prefill, decode } = turn;
  const hits = prefill.hits + decode.hits;
  const asked = hits + prefill.misses + decode.misses;
  const figures = [
    ["decode", speed(decode)],
    ["prefill", speed(prefill)],
    ["prompt read in", seconds(prefill.seconds)],
    ["hit rate", asked ? percent(hits / asked) : "–"],
    ["read", bytes(prefill.bytes_read + decode.bytes_read)],
    ["read per token", decode.rows ? bytes(Math.round(decode.bytes_read / decode.rows)) : "–"],
  ];
  return html`<dl class="figures" aria-label=${`Turn ${turn.turn}`}>
    ${figures.map(
      ([name, value]) => html`<div key=${name}><dt>${name}</dt><dd class="num">${value}</dd></div>`,
    )}
  </dl>`;
}

function speed({ rows, seconds }) {
  return rows ? `${rate(rows / seconds)} tok/s` : "–";
}

/** What the disk did, beside what of it was felt. */
function Disk({ turn }) {
  const service = turn.prefill.read_seconds + turn.decode.read_seconds;
  const wait = turn.prefill.wait_seconds + turn.decode.wait_seconds;
  const whole = Math.max(service, wait, turn.seconds, 1e-9);
  return html`<h3>The disk</h3>
    <div class="disk-row small">
      <span>read time, all readers together</span><span class="num">${seconds(service)}</span>
    </div>
    <${Meter} share=${service / whole} color="var(--cat-6)" label="read time" />
    <div class="disk-row small"><span>time spent waiting for reads</span><span class="num">${seconds(wait)}</span></div>
    <${Meter} share=${wait / whole} color="var(--cat-2)" label="time spent waiting for reads" />
    <p class="small muted">
      ${service > 0 ? `${percent(Math.max(0, 1 - wait / service), 0)} of the read time was hidden behind other work.` : "Nothing was read."}
    </p>`;
}
