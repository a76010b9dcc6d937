// The model's atlas, fetched once a connection.
import { getJson } from "../../lib/api.js";
import { AtlasModel } from "./model.js";

let kept = null; // {epoch, promise}

/** An AtlasModel; rejects with an ApiError, of status 404 where the model has none. */
export function loadAtlas(epoch) {
  if (kept === null || kept.epoch !== epoch) {
    const promise = getJson("v1/colibri/atlas").then((file) => new AtlasModel(file));
    promise.catch(() => {});
    kept = { epoch, promise };
  }
  return kept.promise;
}
