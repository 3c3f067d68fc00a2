// Reads what `encode.rs` has written: numbers of seven bits an octet, column by column.

class Reader {
  constructor(octets) {
    this.octets = octets;
    this.at = 0;
  }

  number() {
    let value = 0;
    for (let factor = 1; ; factor *= 128) {
      if (this.at >= this.octets.length) throw new Error("the recording ends too early");
      const octet = this.octets[this.at++];
      value += (octet & 0x7f) * factor;
      if (octet < 0x80) return value;
    }
  }

  signed() {
    const folded = this.number();
    return folded % 2 ? -(folded + 1) / 2 : folded / 2;
  }

  column(count, Kind) {
    const column = new Kind(count);
    for (let index = 0; index < count; index++) column[index] = this.number();
    return column;
  }

  // Times, each written as what has passed since the one before.
  times(count) {
    const times = new Float64Array(count);
    let now = 0;
    for (let index = 0; index < count; index++) times[index] = now += this.number();
    return times;
  }

  // Indices, written one higher; -1 stands for none.
  options(count) {
    const column = new Int16Array(count);
    for (let index = 0; index < count; index++) column[index] = this.number() - 1;
    return column;
  }

  spans() {
    let now = 0;
    return Array.from({ length: this.number() }, () => {
      const start = now + this.number();
      now = start + this.number();
      return [start, now];
    });
  }

  motion() {
    let [x, y] = [this.signed() / 100, this.signed() / 100];
    const motion = { x, y, legs: [] };
    const count = this.number();
    for (let now = 0, index = 0; index < count; index++) {
      const start = now + this.number();
      const end = start + this.number();
      const [toX, toY] = [x + this.signed() / 100, y + this.signed() / 100];
      motion.legs.push({ start, end, x, y, toX, toY });
      [now, x, y] = [end, toX, toY];
    }
    return motion;
  }
}

// The recording: what stands in the page as JSON, and the columns.
async function load() {
  const recording = JSON.parse(document.getElementById("head").textContent);
  const text = atob(document.getElementById("data").textContent.trim());
  const packed = new Uint8Array(text.length);
  for (let index = 0; index < text.length; index++) packed[index] = text.charCodeAt(index);
  if (typeof DecompressionStream === "undefined") {
    throw new Error("this browser is too old to unpack the recording; any of 2023 or later can");
  }
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("deflate-raw"));
  const reader = new Reader(new Uint8Array(await new Response(stream).arrayBuffer()));

  for (const node of recording.nodes) {
    node.motion = reader.motion();
    node.off = reader.spans();
  }
  for (const wire of recording.wires) wire.down = reader.spans();
  const changes = reader.number();
  recording.routes = {
    at: reader.times(changes),
    node: reader.column(changes, Uint16Array),
    target: reader.column(changes, Uint16Array),
    via: reader.options(changes),
    tunnel: reader.options(changes),
  };
  recording.samples = reader.number();
  for (const flow of recording.flows) flow.received = reader.column(recording.samples, Float64Array);
  for (const node of recording.nodes) {
    for (const what of ["waiting", "sent", "lost", "dropped"]) {
      node[what] = reader.column(recording.samples, Float64Array);
    }
  }
  const frames = reader.number();
  Object.assign(recording.frames, {
    count: frames,
    start: reader.times(frames),
    took: reader.column(frames, Float64Array),
    from: reader.column(frames, Uint16Array),
    to: reader.options(frames),
    kind: reader.column(frames, Uint8Array),
    flow: reader.column(frames, Uint16Array),
  });
  return recording;
}
