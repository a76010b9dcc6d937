// The model's atlas, fetched once a connection, and again when one was built.
import { getJson } from "../../lib/api.js";
import { computed, signal } from "../../lib/html.js";
import { epoch } from "../../lib/live.js";
import { AtlasModel } from "./model.js";

const built = signal(0);

/** Changes when there may be another atlas. */
export const edition = computed(() => `${epoch.value}.${built.value}`);

let kept = null; // {of, promise}

/** One was built. */
export function renew() {
  built.value += 1;
}

/** An AtlasModel of this edition; rejects with an ApiError, of status 404 where the model has none. */
export function loadAtlas(of) {
  if (kept === null || kept.of !== of) {
    const promise = getJson("v1/colibri/atlas").then((file) => new AtlasModel(file));
    promise.catch(() => {});
    kept = { of, promise };
  }
  return kept.promise;
}
