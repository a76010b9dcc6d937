// The one place from which pages take preact, htm and signals.
import htm from "../vendor/htm.js";
import { Fragment, h, render } from "../vendor/preact.js";

export const html = htm.bind(h);
export { Fragment, h, render };
export {
  useCallback,
  useEffect,
  useLayoutEffect,
  useMemo,
  useReducer,
  useRef,
  useState,
} from "../vendor/preact-hooks.js";
export {
  batch,
  computed,
  effect,
  signal,
  untracked,
  useComputed,
  useSignal,
  useSignalEffect,
} from "../vendor/signals.js";
