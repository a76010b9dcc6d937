// The stream of what experts do. Kept only while somebody looks: a page takes it when it is shown.
import { openStream } from "./api.js";
import { effect } from "./html.js";
import { epoch } from "./live.js";

const RETRY_MS = [300, 1_000, 2_000, 5_000];

/** Calls back with (event, data) until what this returns is called. position: gives the id of what
 * is known, so that nothing is missed after a break. */
export function watchRouting(onEvent, position) {
  let stopped = false;
  let controller = null;
  let wake = () => {};

  async function run() {
    for (let failures = 0; !stopped; ) {
      if (document.hidden) {
        await sleep(null);
        continue;
      }
      controller = new AbortController();
      try {
        const after = position();
        const path = `v1/colibri/routing${after ? `?after=${encodeURIComponent(after)}` : ""}`;
        for await (const { event, data } of openStream(path, undefined, controller)) {
          if (data === undefined || stopped) continue;
          failures = 0;
          onEvent(event, JSON.parse(data));
        }
        failures += 1;
      } catch {
        failures += 1; // what is wrong stands in the banner: the page's own stream meets it too
      }
      if (!stopped) await sleep(RETRY_MS[Math.min(failures, RETRY_MS.length - 1)]);
    }
  }

  function sleep(ms) {
    return new Promise((resolve) => {
      const timer = ms === null ? null : setTimeout(resolve, ms);
      wake = () => {
        clearTimeout(timer);
        resolve();
      };
    });
  }

  function onVisibility() {
    if (document.hidden) controller?.abort();
    else wake();
  }

  document.addEventListener("visibilitychange", onVisibility);
  const unsubscribe = effect(() => {
    epoch.value; // connected anew: do not wait any longer
    wake();
  });
  run();
  return () => {
    stopped = true;
    unsubscribe();
    document.removeEventListener("visibilitychange", onVisibility);
    controller?.abort();
    wake();
  };
}
