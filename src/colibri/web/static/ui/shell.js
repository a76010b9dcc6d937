// The frame around every page.
import { apiKey, keyWanted } from "../lib/api.js";
import { bytes, percent, rate } from "../lib/format.js";
import { html, useEffect, useLayoutEffect, useRef, useState } from "../lib/html.js";
import { epoch, history, model, online, state, status } from "../lib/live.js";
import { theme } from "../lib/prefs.js";
import { PAGES, dressAs, linkTo, loadPage, route } from "../lib/router.js";
import { Banner } from "./banner.js";
import { Icon } from "./icons.js";
import { KeyDialog } from "./keydialog.js";
import { Button } from "./parts.js";

export function Shell() {
  const main = useRef(null);
  const skip = (event) => {
    event.preventDefault();
    main.current.focus();
  };
  return html`<div class="shell">
    <a class="skip" href="#main" onClick=${skip}>Skip to the page</a>
    <header class="side">
      <a class="brand" href="#/chat" aria-label="colibri">
        <img src=${new URL("../icon.svg", import.meta.url).href} alt="" /><span>colibri</span>
      </a>
      <nav class="nav" aria-label="Pages">
        ${PAGES.map(
          (page) => html`<a
            key=${page.id}
            href=${linkTo(page.id)}
            title=${page.hint}
            aria-current=${route.value.page === page.id ? "page" : undefined}
          >
            <${Icon} name=${page.id} /><span>${page.title}</span>
          </a>`,
        )}
      </nav>
      <div class="side-foot"><${Pulse} /><${ThemeButton} /></div>
    </header>
    <${Banner} />
    <main class="main" id="main" tabindex="-1" ref=${main}><${CurrentPage} main=${main} /></main>
    <${KeyDialog} />
  </div>`;
}

function CurrentPage({ main }) {
  const { page, rest } = route.value;
  const [shown, setShown] = useState({ page: null, Component: null, failed: false });
  useEffect(() => {
    let current = true;
    const show = (next) => current && setShown(next);
    loadPage(page).then(
      (Component) => show({ page, Component, failed: false }),
      () => show({ page, Component: null, failed: true }),
    );
    document.title = `${PAGES.find((known) => known.id === page).title} · colibri`;
    if (shown.page !== null && shown.page !== page) main.current.focus({ preventScroll: true });
    return () => {
      current = false;
    };
  }, [page, shown.failed && epoch.value]); // what could not be had comes with the next connection
  useLayoutEffect(() => dressAs(shown.page), [shown.page]);
  if (shown.failed) {
    return html`<div class="empty" role="alert">
      <p>This page could not be loaded.</p>
      <${Button} icon="retry" label="Reload" onClick=${() => location.reload()} />
    </div>`;
  }
  if (shown.page !== page) return null;
  return html`<${shown.Component} key=${page} rest=${rest} />`;
}

const STATES = {
  connecting: "connecting",
  loading: "loading",
  live: "connected",
  slow: "slow",
  lost: "unreachable",
  stopping: "stopping",
  key: "requires a key",
  refused: "refused",
};

/** The model and how it does, in a few numbers. */
function Pulse() {
  const now = status.value;
  const asksKey = state.value === "key";
  return html`<section class="pulse" aria-label="Server">
    <div class="pulse-model">
      <span class=${`dot ${state.value}`}></span>
      <span title=${model.value?.id ?? ""}>${model.value?.id ?? STATES[state.value]}</span>
      <span class="sr-only">${STATES[state.value]}</span>
    </div>
    ${model.value && !online.value && html`<p class="muted" aria-hidden="true">${STATES[state.value]}</p>`}
    ${
      asksKey &&
      html`<${Button}
        icon="key"
        label="Enter the key"
        onClick=${() => (keyWanted.value = apiKey.value ? "wrong" : "missing")}
      />`
    }
    ${now && html`<${Numbers} now=${now} />`}
  </section>`;
}

/** Of the last second; what was true before the connection was lost is not shown as if it still were. */
function Numbers({ now }) {
  const { hits = 0, misses = 0 } = now;
  const looked = hits + misses;
  const rows = [
    ["decode", `${rate(now.decode_tokens_per_second)} tok/s`],
    ["read", `${bytes(now.bytes_read_per_second)}/s`],
    ["hits", looked ? percent(hits / looked, 0) : "–"],
    ["memory", bytes(now.total?.rss_bytes)],
  ];
  const fresh = online.value;
  return html`<${Spark} values=${history.value.map((entry) => entry.decode_tokens_per_second)} />
    <dl class=${fresh ? "" : "stale"} title="In the last second, pauses included">
      ${rows.map(([name, value]) => html`<dt>${name}</dt><dd>${fresh ? value : "–"}</dd>`)}
    </dl>`;
}

function Spark({ values }) {
  const recent = values.slice(-60);
  const top = Math.max(1, ...recent);
  const at = (value, index) => `${(index / 59) * 100} ${26 - (value / top) * 24}`;
  const offset = 60 - recent.length;
  const line = recent.map((value, i) => at(value, i + offset)).join(" L");
  return html`<svg class="spark" viewBox="0 0 100 28" preserveAspectRatio="none" aria-hidden="true">
    ${recent.length > 1 && html`<path d=${`M${line}`} />`}
  </svg>`;
}

const NEXT = new Map([
  [null, "light"],
  ["light", "dark"],
  ["dark", null],
]);
const THEMES = { light: ["sun", "light"], dark: ["moon", "dark"], null: ["auto", "system"] };

function ThemeButton() {
  const [icon, says] = THEMES[theme.value];
  const next = () => (theme.value = NEXT.get(theme.value));
  return html`<${Button} kind="plain" icon=${icon} label=${`Theme: ${says}`} bare onClick=${next} />`;
}
