// What the recording says of a time. Times are microseconds, places metres.

const KINDS = ["data", "ack", "routing", "hop", "other"];

// How many of sorted `times` are at `time` or before it.
function countUntil(times, time) {
  let [low, high] = [0, times.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (times[middle] <= time) low = middle + 1;
    else high = middle;
  }
  return low;
}

class Model {
  constructor(recording) {
    Object.assign(this, recording);
    this.longest = this.frames.took.reduce((most, took) => Math.max(most, took), 0);
    for (const node of this.nodes) node.starts = node.motion.legs.map((leg) => leg.start);
    this.ways = this.nodes.map(() => this.targets.map(() => ({ at: [], via: [], tunnel: [] })));
    const { at, node, target, via, tunnel } = this.routes;
    for (let index = 0; index < at.length; index++) {
      const way = this.ways[node[index]][target[index]];
      way.at.push(at[index]);
      way.via.push(via[index]);
      way.tunnel.push(tunnel[index]);
    }
    for (const flow of this.flows) {
      flow.target = this.targets.indexOf(flow.to);
      flow.source = this.targets.indexOf(flow.from);
    }
    // Where to begin: while stations only say hello there is little to see.
    const data = this.frames.kind.indexOf(KINDS.indexOf("data"));
    this.begins = data < 0 ? 0 : Math.max(0, this.frames.start[data] - 5e5);
    this.findPathChanges();
    this.peak = 1;
    for (const flow of this.flows) {
      flow.rates = this.smooth(flow.received);
      this.peak = flow.rates.reduce((most, rate) => Math.max(most, rate), this.peak);
    }
  }

  // Bits a second, over some intervals: an interval of 20 ms holds a packet or none.
  smooth(octets) {
    const around = Math.max(1, Math.round(2.5e5 / this.interval));
    const rates = new Float64Array(octets.length);
    let sum = 0;
    for (let index = 0; index < octets.length + around; index++) {
      if (index < octets.length) sum += octets[index];
      if (index > 2 * around) sum -= octets[index - 2 * around - 1];
      const middle = index - around;
      if (middle < 0) continue;
      const span = Math.min(index, octets.length - 1) - Math.max(0, index - 2 * around) + 1;
      rates[middle] = (sum * 8e6) / (span * this.interval);
    }
    return rates;
  }

  position(index, time) {
    const { motion, starts } = this.nodes[index];
    const after = countUntil(starts, time);
    if (after === 0) return [motion.x, motion.y];
    const { start, end, x, y, toX, toY } = motion.legs[after - 1];
    if (time >= end) return [toX, toY];
    const part = (time - start) / (end - start);
    return [x + (toX - x) * part, y + (toY - y) * part];
  }

  // Metres a second.
  speed(index, time) {
    const { motion, starts } = this.nodes[index];
    const after = countUntil(starts, time);
    if (after === 0) return 0;
    const { start, end, x, y, toX, toY } = motion.legs[after - 1];
    return time >= end ? 0 : Math.hypot(toX - x, toY - y) / ((end - start) / 1e6);
  }

  isOff(index, time) {
    return this.nodes[index].off.some(([start, end]) => start <= time && time < end);
  }

  isDown(wire, time) {
    return wire.down.some(([start, end]) => start <= time && time < end);
  }

  // The next node on the way to a target, -1 if there is no way; the target at the end of a half tunnel that leads
  // there, -1 if there is none; and since when.
  next(node, target, time) {
    const way = this.ways[node][target];
    const last = countUntil(way.at, time) - 1;
    return last < 0 ? { via: -1, tunnel: -1, since: 0 } : { via: way.via[last], tunnel: way.tunnel[last], since: way.at[last] };
  }

  // The nodes that a packet passes from `from` to a target, as the nodes' routes are now.
  path(from, target, time) {
    const path = [from];
    const end = this.targets[target];
    const passed = new Set();
    let [node, towards] = [from, target];
    while (node !== end) {
      if (node === this.targets[towards]) towards = target;
      const { tunnel } = this.next(node, towards, time);
      if (tunnel >= 0) towards = tunnel;
      // Somebody may be passed twice: in the half tunnel and behind it.
      const here = node * this.targets.length + towards;
      if (passed.has(here)) return { path, ends: "a loop" };
      passed.add(here);
      node = this.next(node, towards, time).via;
      if (node < 0) return { path, ends: "no route" };
      path.push(node);
    }
    return { path, ends: "" };
  }

  // When the way of each flow changed: `at` and how many hops it has since then, 0 for none.
  findPathChanges() {
    for (const flow of this.flows) {
      flow.changes = { at: [], hops: [] };
      let before = "";
      const { at } = this.routes;
      for (let index = 0; index < at.length; index++) {
        // Of the changes at one time only all together count.
        if (index + 1 < at.length && at[index + 1] === at[index]) continue;
        const { path, ends } = this.path(flow.from, flow.target, at[index]);
        const now = ends ? "" : path.join(" ");
        if (now === before) continue;
        before = now;
        flow.changes.at.push(at[index]);
        flow.changes.hops.push(ends ? 0 : path.length - 1);
      }
    }
    this.pathChanges = Float64Array.from(this.flows.flatMap((flow) => flow.changes.at)).sort();
  }

  sample(series, time) {
    if (this.samples === 0) return 0;
    return series[Math.max(0, Math.min(Math.floor(time / this.interval), this.samples - 1))];
  }

  // What a node has counted up to a time.
  sum(series, time) {
    let sum = 0;
    const until = Math.min(Math.floor(time / this.interval) + 1, this.samples);
    for (let index = 0; index < until; index++) sum += series[index];
    return sum;
  }

  // Nodes whose radios understand each other.
  hears(a, b, places) {
    const [near, far] = [this.nodes[a].range, this.nodes[b].range];
    if (near === null || far === null) return false;
    const reach = Math.min(near, far);
    const [x, y] = [places[a][0] - places[b][0], places[a][1] - places[b][1]];
    return x * x + y * y <= reach * reach;
  }
}

function inSeconds(time, digits = 2) {
  return `${(time / 1e6).toFixed(digits)} s`;
}

function inBits(rate) {
  if (rate >= 1e6) return `${(rate / 1e6).toFixed(2)} Mbit/s`;
  if (rate >= 1e5) return `${(rate / 1e3).toFixed(0)} kbit/s`;
  if (rate >= 1e3) return `${(rate / 1e3).toFixed(1)} kbit/s`;
  return `${rate.toFixed(0)} bit/s`;
}

function plural(count, word) {
  return `${count.toLocaleString("en")} ${word}${count === 1 ? "" : "s"}`;
}
