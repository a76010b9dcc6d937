// An atlas as the page needs it: flat arrays and facts, from the file of `coli atlas build`.

const SPECIALIST = 2.5; // times the even share that the main topic of one has

export class AtlasModel {
  constructor(file) {
    this.model = file.model;
    this.topics = file.topics;
    this.variance = file.variance;
    this.layers = file.layers.map((layer) => layer.layer);
    this.tokens = file.topics.reduce((sum, topic) => sum + topic.tokens, 0);
    this.experts = [];
    const mean = this.tokens / file.topics.length;
    for (const layer of file.layers) {
      layer.selections.forEach((selections, expert) => {
        const counts = selections.map(
          (n, t) => (n * mean) / file.topics[t].tokens + file.smoothing,
        );
        const sum = counts.reduce((a, b) => a + b, 0);
        const shares = counts.map((n) => n / sum);
        const top = shares.indexOf(Math.max(...shares));
        const entropy =
          -shares.reduce((a, p) => a + p * Math.log(p), 0) / Math.log(file.topics.length);
        this.experts.push({
          layer: layer.layer,
          expert,
          place: layer.places[expert],
          selections: selections.reduce((a, b) => a + b, 0),
          shares,
          top,
          entropy,
          specialist: shares[top] * shares.length >= SPECIALIST,
          tokens: layer.tokens[expert],
          neighbours: layer.neighbours[expert],
        });
      });
    }
    this.byKey = new Map(this.experts.map((e, i) => [`${e.layer}/${e.expert}`, i]));
  }

  /** The expert's place in `experts`, or -1. */
  index(layer, expert) {
    return this.byKey.get(`${layer}/${expert}`) ?? -1;
  }

  /** The expert's topics from the most on: [{name, share}]. */
  topicsOf(index, most = 3) {
    const { shares } = this.experts[index];
    return shares
      .map((share, t) => ({ name: this.topics[t].name, share, topic: t }))
      .sort((a, b) => b.share - a.share)
      .slice(0, most);
  }

  /** Experts that a text speaks of: a place such as 3/17, a topic, or one of their tokens. */
  search(text) {
    const wanted = text.trim().toLowerCase();
    if (!wanted) return [];
    const place = /^(?:l(?:ayer)?\s*)?(\d+)\s*[/., ]\s*(?:e(?:xpert)?\s*)?(\d+)$/.exec(wanted);
    if (place) {
      const found = this.index(Number(place[1]), Number(place[2]));
      return found < 0 ? [] : [found];
    }
    const topics = this.topics.map((topic) => topic.name.toLowerCase().startsWith(wanted));
    const found = [];
    this.experts.forEach((expert, i) => {
      const named = expert.tokens.some((token) => token.trim().toLowerCase() === wanted);
      if (named || (topics[expert.top] && expert.specialist)) found.push(i);
    });
    return found.sort((a, b) => this.experts[a].entropy - this.experts[b].entropy);
  }
}
