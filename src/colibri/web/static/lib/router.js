// #/page/rest: which page, and what of it. A page's module and style sheet come when it is opened.
import { signal } from "./html.js";

/** In the order of the navigation. Each has pages/ID.js (default export: a component, which gets
 * `rest`) and css/ID.css. */
export const PAGES = [
  { id: "chat", title: "Chat", hint: "Talk with the model" },
  { id: "brio", title: "Brio", hint: "Closed questions about a document" },
  { id: "brain", title: "Brain", hint: "Every expert, as it fires" },
  { id: "atlas", title: "Atlas", hint: "Which experts are for which topics" },
  { id: "profile", title: "Profile", hint: "Where the time goes" },
  { id: "model", title: "Model", hint: "The plan, and what happened" },
];

/** {page, rest}: "#/chat/abc" is {page: "chat", rest: "abc"}. */
export const route = signal(here());

const left = new Map(); // page -> what of it was open when it was left

addEventListener("hashchange", () => {
  const next = here();
  if (next.page !== route.value.page) left.set(route.value.page, route.value.rest);
  route.value = next;
});

/** Where the navigation leads: Chat goes on with the conversation it was left in. */
export function linkTo(page) {
  const rest = page === "chat" && route.value.page !== page ? left.get(page) : "";
  return hashOf(page, rest);
}

function hashOf(page, rest) {
  return `#/${page}${rest ? `/${encodeURIComponent(rest)}` : ""}`;
}

export function navigate(page, rest = "", { replace = false } = {}) {
  const hash = hashOf(page, rest);
  if (hash === location.hash) return;
  if (replace) {
    history.replaceState(null, "", hash);
    route.value = parse(hash);
  } else {
    location.hash = hash;
  }
}

/** The address as it should be stands there from now on, whatever somebody typed. */
function here() {
  const found = parse(location.hash);
  const hash = hashOf(found.page, found.rest);
  if (location.hash && location.hash !== hash) history.replaceState(null, "", hash);
  return found;
}

function parse(hash) {
  const [id, rest = ""] = hash.replace(/^#\/?/, "").split("/");
  const page = PAGES.find((known) => known.id === id) ?? PAGES[0];
  return { page: page.id, rest: page.id === id ? decoded(rest) : "" };
}

function decoded(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return "";
  }
}

const loaded = new Map(); // page -> promise of its component
let failures = 0;

/** The page's component. Rejects where its files cannot be had, and may be asked again: browsers
 * remember a module that failed, so it is fetched under another address then. */
export function loadPage(id) {
  if (!loaded.has(id)) {
    const files = [import(`../pages/${id}.js${failures ? `?${failures}` : ""}`), loadStyle(id)];
    const component = Promise.all(files).then(([module]) => module.default);
    component.catch(() => {
      failures += 1;
      loaded.delete(id);
    });
    loaded.set(id, component);
  }
  return loaded.get(id);
}

const styles = new Map(); // page -> the element of its style sheet

/** From now on the style sheet of this page applies, and of no other: what was looked at before changes nothing. */
export function dressAs(page) {
  for (const [id, link] of styles) link.media = id === page ? "all" : NEVER;
}

const NEVER = "not all"; // it is fetched all the same

function loadStyle(id) {
  const path = `../css/${id}.css`;
  return new Promise((resolve, reject) => {
    const link = document.createElement("link");
    link.media = NEVER;
    link.rel = "stylesheet";
    link.href = new URL(path, import.meta.url).href;
    link.onload = () => {
      styles.set(id, link);
      resolve();
    };
    link.onerror = () => {
      link.remove();
      reject(new Error(`${path} cannot be loaded`));
    };
    document.head.append(link);
  });
}
