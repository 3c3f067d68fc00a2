// Draws the network at a time.

// A packet is seen at least this long, in seconds of the one who watches.
const SEEN = 0.4;
// Of more packets at a time only some are drawn.
const MOST_PACKETS = 500;
const FLOWS = 6;

function readTheme() {
  const style = getComputedStyle(document.documentElement);
  const names = ["paper", "text", "faint", "line", "grid", "range", "node", "ink", "link", "wire", "ack",
    "routing", "hop", "other", "lost", "queue", "accent"];
  const theme = Object.fromEntries(names.map((name) => [name, style.getPropertyValue(`--${name}`).trim()]));
  theme.flows = Array.from({ length: FLOWS }, (_, index) => style.getPropertyValue(`--flow${index}`).trim());
  return theme;
}

class Scene {
  constructor(canvas, model) {
    this.canvas = canvas;
    // Tests read pixels back, which a browser wants to know beforehand.
    const willReadFrequently = /check|measure/.test(location.hash);
    this.context = canvas.getContext("2d", { alpha: false, willReadFrequently });
    this.model = model;
    this.setTheme();
    this.layers = { ranges: true, links: true, routes: true, packets: true, names: true };
    this.selected = -1;
    this.load = new Float64Array(model.nodes.length ** 2);
    this.drawn = { packets: 0, of: 0 };
    this.resize();
    this.fit();
  }

  setTheme() {
    this.theme = readTheme();
    this.sprites = new Map();
  }

  // A small picture that is drawn again and again: drawn once, of so many pixels around its middle.
  sprite(name, width, height, draw) {
    let sprite = this.sprites.get(name);
    if (!sprite) {
      sprite = document.createElement("canvas");
      [sprite.width, sprite.height] = [Math.ceil(width * this.density), Math.ceil(height * this.density)];
      const context = sprite.getContext("2d");
      context.setTransform(this.density, 0, 0, this.density, sprite.width / 2, sprite.height / 2);
      draw(context);
      this.sprites.set(name, sprite);
    }
    return sprite;
  }

  put(sprite, x, y) {
    const [width, height] = [sprite.width / this.density, sprite.height / this.density];
    this.context.drawImage(sprite, x - width / 2, y - height / 2, width, height);
  }

  resize() {
    const { clientWidth: width, clientHeight: height } = this.canvas;
    const density = window.devicePixelRatio || 1;
    if (width === this.width && height === this.height && density === this.density) return false;
    if (density !== this.density) this.sprites.clear();
    [this.width, this.height, this.density] = [width, height, density];
    [this.canvas.width, this.canvas.height] = [Math.round(width * density), Math.round(height * density)];
    return true;
  }

  // Shows every place where a node ever is.
  fit() {
    const places = this.model.nodes.flatMap(({ motion }) =>
      [[motion.x, motion.y], ...motion.legs.map((leg) => [leg.toX, leg.toY])]);
    const [xs, ys] = [places.map((place) => place[0]), places.map((place) => place[1])];
    const bounds = (all) => [all.reduce((a, b) => Math.min(a, b), Infinity), all.reduce((a, b) => Math.max(a, b), -Infinity)];
    const [[left, right], [bottom, top]] = places.length ? [bounds(xs), bounds(ys)] : [[0, 1], [0, 1]];
    const [wide, high] = [Math.max(right - left, 1), Math.max(top - bottom, 1)];
    const [roomX, roomY] = [Math.max(this.width - 150, 50), Math.max(this.height - 170, 50)];
    this.scale = Math.min(roomX / wide, roomY / high);
    this.middle = [(left + right) / 2, (top + bottom) / 2];
  }

  // Pixels of a place; north is up.
  pixels([x, y]) {
    return [
      this.width / 2 + (x - this.middle[0]) * this.scale,
      this.height / 2 - (y - this.middle[1]) * this.scale,
    ];
  }

  zoom(factor, x, y) {
    const before = [(x - this.width / 2) / this.scale, (y - this.height / 2) / this.scale];
    this.scale = Math.min(Math.max(this.scale * factor, 1e-3), 1e3);
    this.middle[0] += before[0] - (x - this.width / 2) / this.scale;
    this.middle[1] -= before[1] - (y - this.height / 2) / this.scale;
  }

  move(x, y) {
    this.middle[0] -= x / this.scale;
    this.middle[1] += y / this.scale;
  }

  nodeAt(x, y, time) {
    let [best, nearest] = [-1, 22];
    this.model.nodes.forEach((_, index) => {
      const [nodeX, nodeY] = this.pixels(this.model.position(index, time));
      const distance = Math.hypot(nodeX - x, nodeY - y);
      if (distance < nearest) [best, nearest] = [index, distance];
    });
    return best;
  }

  draw(time, speed) {
    const { context, model, layers } = this;
    this.places = model.nodes.map((_, index) => model.position(index, time));
    this.at = this.places.map((place) => this.pixels(place));
    this.off = model.nodes.map((_, index) => model.isOff(index, time));
    context.setTransform(this.density, 0, 0, this.density, 0, 0);
    context.globalAlpha = 1;
    context.fillStyle = this.theme.paper;
    context.fillRect(0, 0, this.width, this.height);
    context.lineCap = context.lineJoin = "round";
    this.drawGround();
    if (layers.ranges) this.drawRanges();
    this.findPackets(time, speed);
    if (layers.links) this.drawLinks();
    this.drawWires(time);
    if (layers.routes) this.drawRoutes(time);
    if (layers.packets) this.drawPackets(time);
    this.drawNodes(time);
    context.globalAlpha = 1;
    this.drawNote();
  }

  // A grid of metres and its scale.
  drawGround() {
    if (!this.model.nodes.some((node) => node.placed)) return;
    const { context, theme, width, height, scale } = this;
    const power = 10 ** Math.floor(Math.log10(140 / scale));
    const step = [1, 2, 5, 10].map((part) => part * power).find((metres) => metres * scale >= 70);
    context.strokeStyle = theme.grid;
    context.lineWidth = 1;
    context.beginPath();
    const [left, top] = [this.middle[0] - width / 2 / scale, this.middle[1] + height / 2 / scale];
    for (let x = Math.ceil(left / step) * step; x < left + width / scale; x += step) {
      const [at] = this.pixels([x, 0]);
      context.moveTo(at, 0);
      context.lineTo(at, height);
    }
    for (let y = Math.floor(top / step) * step; y > top - height / scale; y -= step) {
      const [, at] = this.pixels([0, y]);
      context.moveTo(0, at);
      context.lineTo(width, at);
    }
    context.stroke();
    context.strokeStyle = context.fillStyle = theme.faint;
    context.lineWidth = 2;
    context.beginPath();
    context.moveTo(16, height - 22);
    context.lineTo(16, height - 16);
    context.lineTo(16 + step * scale, height - 16);
    context.lineTo(16 + step * scale, height - 22);
    context.stroke();
    this.write(step >= 1000 ? `${step / 1000} km` : `${step} m`, 16 + (step * scale) / 2, height - 24, theme.faint, 12);
  }

  // All at once: where ranges overlap they are not darker, and it is fast.
  drawRanges() {
    const { context, theme } = this;
    context.beginPath();
    this.at.forEach((_, index) => this.traceRange(index));
    context.globalAlpha = 0.05;
    context.fillStyle = theme.range;
    context.fill();
    context.globalAlpha = 0.14;
    context.strokeStyle = theme.range;
    context.lineWidth = 1;
    context.stroke();
    if (this.selected < 0) return;
    context.beginPath();
    this.traceRange(this.selected);
    context.globalAlpha = 0.1;
    context.fill();
    context.globalAlpha = 0.9;
    context.lineWidth = 1.5;
    context.stroke();
  }

  traceRange(index) {
    const { range } = this.model.nodes[index];
    if (range === null || this.off[index]) return;
    const [[x, y], radius] = [this.at[index], range * this.scale];
    this.context.moveTo(x + radius, y);
    this.context.arc(x, y, radius, 0, 2 * Math.PI);
  }

  drawLinks() {
    const { context, theme } = this;
    const count = this.at.length;
    context.strokeStyle = theme.link;
    // Those without packets are most, and all alike.
    context.beginPath();
    const busy = [];
    for (let a = 0; a < count; a++) {
      for (let b = 0; b < a; b++) {
        if (this.off[a] || this.off[b] || !this.model.hears(a, b, this.places)) continue;
        const load = this.load[a * count + b] + this.load[b * count + a];
        if (load > 0) {
          busy.push([a, b, load]);
          continue;
        }
        context.moveTo(...this.at[a]);
        context.lineTo(...this.at[b]);
      }
    }
    context.globalAlpha = 0.35;
    context.lineWidth = 1;
    context.stroke();
    context.globalAlpha = 0.75;
    for (const [a, b, load] of busy) {
      context.lineWidth = 1 + 4 * (load / (load + this.usual));
      this.line(this.at[a], this.at[b]);
    }
  }

  drawWires(time) {
    const { context, theme } = this;
    context.globalAlpha = 1;
    for (const wire of this.model.wires) {
      const [a, b] = wire.ends.map((end) => this.at[end]);
      const isDown = this.model.isDown(wire, time);
      context.setLineDash(isDown ? [3, 9] : []);
      context.strokeStyle = isDown ? theme.lost : theme.wire;
      context.lineWidth = isDown ? 2 : 4;
      this.line(a, b);
      if (isDown) {
        this.cross((a[0] + b[0]) / 2, (a[1] + b[1]) / 2, 7);
      } else {
        context.strokeStyle = theme.paper;
        context.lineWidth = 1.5;
        this.line(a, b);
      }
      context.setLineDash([]);
      if (this.layers.names && this.model.wires.length <= 12) this.writeAlong(wire.label, a, b);
    }
  }

  // The way of each flow: a band as wide as the flow has others below it, with arrows.
  drawRoutes(time) {
    const { context, theme, model } = this;
    if (this.selected >= 0) this.drawNextHops(time);
    model.flows.forEach((flow, index) => {
      const { path, ends } = model.path(flow.from, flow.target, time);
      context.strokeStyle = context.fillStyle = theme.flows[index % FLOWS];
      context.globalAlpha = ends ? 0.25 : 0.4;
      context.lineWidth = 9 + 5 * (model.flows.length - 1 - index);
      context.setLineDash(ends ? [2, 16] : []);
      context.beginPath();
      path.forEach((node, step) => context[step ? "lineTo" : "moveTo"](...this.at[node]));
      context.stroke();
      context.setLineDash([]);
      context.globalAlpha = 0.95;
      for (let step = 1; step < path.length; step++) this.arrow(this.at[path[step - 1]], this.at[path[step]], 8);
    });
  }

  // Where the chosen node sends what is for each target.
  drawNextHops(time) {
    const { context, theme, model, selected } = this;
    context.globalAlpha = 0.9;
    context.strokeStyle = context.fillStyle = theme.ink;
    context.lineWidth = 2;
    model.targets.forEach((_, target) => {
      const { via } = model.next(selected, target, time);
      if (via >= 0) this.line(this.at[selected], this.at[via]);
    });
  }

  // The packets that are to be seen, and how many each pair of nodes has exchanged of late.
  findPackets(time, speed) {
    const { frames, nodes } = this.model;
    const seen = SEEN * 1e6 * speed;
    const first = countUntil(frames.start, time - Math.max(this.model.longest, seen) - 1);
    const last = countUntil(frames.start, time);
    this.load.fill(0);
    this.packets = [];
    let visible = 0;
    for (let index = first; index < last; index++) {
      const lasts = Math.max(frames.took[index], seen);
      if (time >= frames.start[index] + lasts) continue;
      visible++;
      const to = frames.to[index];
      if (to >= 0) this.load[frames.from[index] * nodes.length + to]++;
    }
    this.usual = Math.max(visible / 12, 1);
    // By a number without a pattern: the frames of a MAC take turns.
    const share = Math.ceil(visible / MOST_PACKETS);
    for (let index = first; index < last; index++) {
      const part = (time - frames.start[index]) / Math.max(frames.took[index], seen);
      if (part >= 1 || (share > 1 && (Math.imul(index, 0x9e3779b1) >>> 8) % share)) continue;
      this.packets.push([index, part]);
    }
    this.drawn = { packets: this.packets.length, of: visible };
  }

  colourOf(index) {
    const { theme, model } = this;
    const { kind, flow } = model.frames;
    const name = KINDS[kind[index] & 7];
    if (name === "data" || name === "ack") {
      return flow[index] ? theme.flows[((flow[index] - 1) >> 1) % FLOWS] : theme.other;
    }
    return theme[name];
  }

  drawPackets(time) {
    const { context, theme, model } = this;
    const { from, to, kind } = model.frames;
    context.lineWidth = 1.5;
    for (const [index, part] of this.packets) {
      const [x, y] = this.at[from[index]];
      const isLost = kind[index] >= 8;
      const name = KINDS[kind[index] & 7];
      const colour = this.colourOf(index);
      if (to[index] < 0) {
        const range = (model.nodes[from[index]].range ?? 40 / this.scale) * this.scale;
        context.globalAlpha = 0.7 * (1 - part);
        context.strokeStyle = colour;
        context.lineWidth = 2;
        context.beginPath();
        context.arc(x, y, Math.max(12, range * Math.sqrt(part)), 0, 2 * Math.PI);
        context.stroke();
        context.lineWidth = 1.5;
        continue;
      }
      const [farX, farY] = this.at[to[index]];
      const distance = Math.hypot(farX - x, farY - y) || 1;
      const [unitX, unitY] = [(farX - x) / distance, (farY - y) / distance];
      // Each direction keeps to its right.
      const [sideX, sideY] = [-unitY * 5, unitX * 5];
      const way = distance * (isLost ? Math.min(part, 0.6) : part);
      const [atX, atY] = [x + unitX * way + sideX, y + unitY * way + sideY];
      if (isLost && part > 0.6) {
        context.globalAlpha = 1.6 - part * 1.5;
        context.strokeStyle = theme.lost;
        context.lineWidth = 2.5;
        this.cross(atX, atY, 5);
        context.lineWidth = 1.5;
        continue;
      }
      context.globalAlpha = 1;
      this.packet(name, atX, atY, colour);
    }
  }

  packet(name, x, y, colour) {
    this.put(this.sprite(`${name} ${colour}`, 14, 14, (context) => {
      context.beginPath();
      if (name === "routing") {
        [[0, -5], [5, 0], [0, 5], [-5, 0]].forEach((corner) => context.lineTo(...corner));
        context.closePath();
      } else {
        context.arc(0, 0, { data: 4.5, ack: 3.5, hop: 2, other: 3 }[name], 0, 2 * Math.PI);
      }
      context.lineWidth = 1.5;
      context.fillStyle = name === "ack" ? this.theme.paper : colour;
      context.fill();
      context.strokeStyle = name === "ack" ? colour : this.theme.paper;
      if (name !== "hop") context.stroke();
    }), x, y);
  }

  drawNodes(time) {
    const { context, theme, model } = this;
    const radius = model.nodes.length > 24 ? 8 : 10;
    this.at.forEach(([x, y], index) => {
      const node = model.nodes[index];
      const flow = model.flows.findIndex((one) => one.from === index || one.to === index);
      const waiting = model.sample(node.waiting, time);
      context.globalAlpha = this.off[index] ? 0.45 : 1;
      context.beginPath();
      if (node.placed || !model.nodes.some((other) => other.placed)) context.arc(x, y, radius, 0, 2 * Math.PI);
      else context.roundRect(x - radius, y - radius, 2 * radius, 2 * radius, 3);
      context.fillStyle = theme.node;
      context.fill();
      context.setLineDash(this.off[index] ? [3, 3] : []);
      context.strokeStyle = flow < 0 ? theme.ink : theme.flows[flow % FLOWS];
      context.lineWidth = flow < 0 ? 1.75 : 3.5;
      context.stroke();
      context.setLineDash([]);
      if (waiting > 0) {
        context.strokeStyle = theme.queue;
        context.lineWidth = 4;
        context.beginPath();
        const full = 2 * Math.PI * Math.min(waiting / 50, 1);
        context.arc(x, y, radius + 5, -Math.PI / 2, -Math.PI / 2 + Math.max(full, 0.15));
        context.stroke();
        this.write(`${waiting}`, x, y + 4, theme.text, radius > 8 ? 11 : 10, "700");
      }
      if (index === this.selected) {
        context.strokeStyle = theme.accent;
        context.lineWidth = 2;
        context.beginPath();
        context.arc(x, y, radius + 10, 0, 2 * Math.PI);
        context.stroke();
      }
      if (this.layers.names) {
        this.write(node.name, x, y + radius + 18, theme.text, model.nodes.length > 24 ? 11 : 13, "600");
      }
    });
  }

  // What is not drawn.
  drawNote() {
    const { frames, routesMissing } = this.model;
    const notes = [];
    if (frames.count < frames.total) {
      notes.push(`of ${frames.total.toLocaleString("en")} packets the file has 1 in ${Math.round(frames.total / Math.max(frames.count, 1))}`);
    }
    if (this.layers.packets && this.drawn.packets < this.drawn.of) {
      notes.push(`1 in ${Math.round(this.drawn.of / this.drawn.packets)} drawn at this speed`);
    }
    if (routesMissing > 0) notes.push(`${plural(routesMissing, "change")} of routes missing`);
    if (notes.length === 0) return;
    this.write(notes.join(" · "), this.width - 14, this.height - 14, this.theme.faint, 12, "400", "right");
  }

  line([x1, y1], [x2, y2]) {
    const { context } = this;
    context.beginPath();
    context.moveTo(x1, y1);
    context.lineTo(x2, y2);
    context.stroke();
  }

  arrow([x1, y1], [x2, y2], size) {
    const { context } = this;
    const angle = Math.atan2(y2 - y1, x2 - x1);
    const [x, y] = [(x1 + x2) / 2, (y1 + y2) / 2];
    context.beginPath();
    context.moveTo(x + Math.cos(angle) * size, y + Math.sin(angle) * size);
    context.lineTo(x + Math.cos(angle + 2.5) * size, y + Math.sin(angle + 2.5) * size);
    context.lineTo(x + Math.cos(angle - 2.5) * size, y + Math.sin(angle - 2.5) * size);
    context.closePath();
    context.fill();
  }

  cross(x, y, size) {
    this.line([x - size, y - size], [x + size, y + size]);
    this.line([x - size, y + size], [x + size, y - size]);
  }

  // Text with a rim that sets it off from lines.
  write(text, x, y, colour, size, weight = "400", align = "center") {
    const font = `${weight} ${size}px system-ui, "DejaVu Sans", sans-serif`;
    this.context.font = font;
    const width = this.context.measureText(text).width;
    const sprite = this.sprite(`${text} ${colour} ${font}`, width + 8, size + 10, (context) => {
      context.font = font;
      context.textAlign = "center";
      context.textBaseline = "alphabetic";
      context.lineJoin = "round";
      context.strokeStyle = this.theme.paper;
      context.lineWidth = 3;
      context.strokeText(text, 0, size / 2);
      context.fillStyle = colour;
      context.fillText(text, 0, size / 2);
    });
    this.put(sprite, align === "right" ? x - width / 2 : x, y - size / 2);
    // Counts of packets are many texts in a long run.
    if (this.sprites.size > 2000) this.sprites.clear();
  }

  writeAlong(text, [x1, y1], [x2, y2]) {
    const { context, theme } = this;
    context.font = "400 11px system-ui, sans-serif";
    if (Math.hypot(x2 - x1, y2 - y1) < context.measureText(text).width + 44) return;
    let angle = Math.atan2(y2 - y1, x2 - x1);
    if (Math.abs(angle) > Math.PI / 2) angle += Math.PI;
    context.save();
    context.translate((x1 + x2) / 2, (y1 + y2) / 2);
    context.rotate(angle);
    this.write(text, 0, -14, theme.faint, 11);
    context.restore();
  }
}
