// Server-sent events over fetch: EventSource can neither POST nor send a key, and hides comments.

/** Of a response's body: {event, data} for each event, {comment} for each comment. */
export async function* readEvents(body, onBytes = () => {}) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let buffer = "";
  let event = "";
  let data = [];
  try {
    for (;;) {
      const { value, done } = await reader.read();
      if (done) return;
      onBytes();
      buffer += value;
      let end;
      while ((end = buffer.indexOf("\n")) >= 0) {
        const line = buffer.slice(0, end).replace(/\r$/, "");
        buffer = buffer.slice(end + 1);
        if (line === "") {
          if (data.length) yield { event: event || "message", data: data.join("\n") };
          event = "";
          data = [];
        } else if (line.startsWith(":")) {
          yield { comment: line.slice(1).trim() };
        } else {
          const [name, text] = field(line);
          if (name === "event") event = text;
          else if (name === "data") data.push(text);
        }
      }
    }
  } finally {
    reader.cancel().catch(() => {});
  }
}

function field(line) {
  const at = line.indexOf(":");
  if (at < 0) return [line, ""];
  return [line.slice(0, at), line.slice(at + 1).replace(/^ /, "")];
}
