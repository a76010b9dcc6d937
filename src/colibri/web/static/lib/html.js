// The one place from which pages take preact, htm and signals.
import htm from "../vendor/htm.js";
import { h, render } from "../vendor/preact.js";

export const html = htm.bind(h);
export { h, render };
export { useEffect, useLayoutEffect, useMemo, useRef, useState } from "../vendor/preact-hooks.js";
export { batch, computed, effect, signal } from "../vendor/signals.js";
