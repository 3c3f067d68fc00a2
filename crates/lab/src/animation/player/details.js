// What stands beside the picture: flows, the chosen node, the legend.

class Details {
  constructor(model, scene) {
    Object.assign(this, { model, scene });
    this.flows = document.getElementById("flows");
    this.node = document.getElementById("node");
    this.details = document.getElementById("details");
    this.fillFlows();
    model.nodes.forEach((node, index) => this.node.append(new Option(node.name, index)));
    this.fillLegend();
  }

  fillFlows() {
    this.rows = this.model.flows.map((flow, index) => {
      const row = element("div", { className: "flow" });
      row.style.setProperty("--colour", `var(--flow${index % FLOWS})`);
      const [rate, way] = [element("span", { className: "rate" }), element("span", {})];
      row.append(rate, element("b", { textContent: flow.name }), way);
      this.flows.append(row);
      return { rate, way };
    });
    if (this.rows.length === 0) this.flows.append(element("p", { textContent: "This run has none." }));
  }

  names(path) {
    return path.map((node) => this.model.nodes[node].name).join(" → ");
  }

  wayOf(flow, time) {
    const { path, ends } = this.model.path(flow.from, flow.target, time);
    if (ends) return `${ends} (${this.names(path)} …)`;
    return `${this.names(path)} (${plural(path.length - 1, "hop")})`;
  }

  update(time) {
    this.model.flows.forEach((flow, index) => {
      const { rate, way } = this.rows[index];
      rate.textContent = inBits(this.model.sample(flow.rates, time));
      way.textContent = this.wayOf(flow, time);
    });
    this.updateNode(time);
  }

  updateNode(time) {
    const { model, scene: { selected } } = this;
    this.node.value = selected < 0 ? "" : `${selected}`;
    if (selected < 0) {
      this.details.replaceChildren();
      this.shown = -1;
      return;
    }
    if (this.shown !== selected) {
      this.shown = selected;
      this.list = element("dl", {});
      this.chart = element("canvas", {});
      this.chart.setAttribute("role", "img");
      this.details.replaceChildren(this.list, this.chart);
    }
    const node = model.nodes[selected];
    const rows = [];
    if (node.placed) {
      const [x, y] = model.position(selected, time);
      rows.push(["Place", `${x.toFixed(0)} m, ${y.toFixed(0)} m`]);
      rows.push(["Speed", `${model.speed(selected, time).toFixed(1)} m/s`]);
    }
    if (node.range !== null) {
      rows.push(["Radio", model.isOff(selected, time) ? "off" : `${node.range.toFixed(0)} m`]);
      const places = model.nodes.map((_, index) => model.position(index, time));
      const near = model.nodes.filter((_, index) => index !== selected && !model.isOff(index, time) && model.hears(selected, index, places));
      rows.push(["In range", near.map((other) => other.name).join(", ") || "nobody"]);
    }
    const waiting = model.sample(node.waiting, time);
    rows.push(["Queue", plural(waiting, "packet")]);
    rows.push(["Sent", plural(model.sum(node.sent, time), "packet")]);
    rows.push(["Lost", plural(model.sum(node.lost, time), "packet")]);
    rows.push(["Dropped", plural(model.sum(node.dropped, time), "packet")]);
    model.targets.forEach((target, index) => {
      if (target === selected) return;
      const { via, tunnel, since } = model.next(selected, index, time);
      const through = tunnel < 0 ? "" : `, in a tunnel to ${model.nodes[model.targets[tunnel]].name}`;
      const how = via < 0 ? "no route" : `via ${model.nodes[via].name}${through}, since ${inSeconds(since, 1)}`;
      rows.push([`To ${model.nodes[target].name}`, how]);
    });
    this.list.replaceChildren(...rows.flatMap(([what, value]) =>
      [element("dt", { textContent: what }), element("dd", { textContent: value })]));
    this.drawChart(node, time);
  }

  // The queue of the chosen node over the whole run.
  drawChart(node, time) {
    const { chart, model, scene: { theme } } = this;
    const density = window.devicePixelRatio || 1;
    const [width, height] = [chart.clientWidth, chart.clientHeight];
    [chart.width, chart.height] = [width * density, height * density];
    const context = chart.getContext("2d");
    context.scale(density, density);
    const most = node.waiting.reduce((a, b) => Math.max(a, b), 1);
    chart.setAttribute("aria-label", `Packets waiting over the run, ${most} at most`);
    context.fillStyle = theme.queue;
    const columns = Math.max(1, Math.floor(width));
    for (let x = 0; x < columns; x++) {
      const from = Math.floor((x * model.samples) / columns);
      const to = Math.max(from + 1, Math.floor(((x + 1) * model.samples) / columns));
      let high = 0;
      for (let index = from; index < Math.min(to, model.samples); index++) high = Math.max(high, node.waiting[index]);
      context.fillRect(x, height - (high / most) * (height - 14), 1, (high / most) * (height - 14));
    }
    context.fillStyle = theme.accent;
    context.fillRect((time / Math.max(model.duration, 1)) * width, 0, 1.5, height);
    context.fillStyle = theme.faint;
    context.font = "11px system-ui, sans-serif";
    context.fillText(`queue over the run, up to ${most}`, 2, 10);
  }

  fillLegend() {
    const { model } = this;
    const used = new Set(model.frames.kind.map((kind) => kind & 7));
    const isLossy = model.frames.kind.some((kind) => kind >= 8);
    const dot = (fill, stroke, radius) => `<circle cx="13" cy="8" r="${radius}" fill="var(${fill})" stroke="var(${stroke})" stroke-width="1.5"/>`;
    const entries = [
      [used.has(0), dot("--flow0", "--paper", 5), "data, in the colour of its flow"],
      [used.has(1), dot("--paper", "--flow0", 4), "acknowledgement of TCP"],
      [used.has(2), '<path d="M13 2l6 6-6 6-6-6z" fill="var(--routing)"/>', "routing, hello"],
      [used.has(3), dot("--hop", "--hop", 2.5), "between two hops"],
      [used.has(4), dot("--other", "--paper", 4), "other packets"],
      [isLossy, '<path d="M8 3l10 10M18 3L8 13" stroke="var(--lost)" stroke-width="2.5"/>', "packet lost"],
      [model.frames.to.some((to) => to < 0), '<circle cx="13" cy="8" r="6.5" fill="none" stroke="var(--routing)" stroke-width="2"/>', "sent to all who hear it"],
      [true, '<circle cx="13" cy="8" r="4" fill="none" stroke="var(--ink)"/><path d="M13 1a7 7 0 0 1 7 7" fill="none" stroke="var(--queue)" stroke-width="3"/>', "queue: full circle is 50 packets"],
      [model.flows.length > 0, '<path d="M2 8h22" stroke="var(--flow0)" stroke-opacity="0.45" stroke-width="9"/><path d="M17 8l-7-4v8z" fill="var(--flow0)"/>', "the way of a flow"],
      [model.nodes.some((node) => node.range !== null), '<path d="M2 8h22" stroke="var(--link)" stroke-width="2"/>', "in range; wider with more packets"],
      [model.wires.length > 0, '<path d="M2 8h22" stroke="var(--wire)" stroke-width="5"/><path d="M2 8h22" stroke="var(--paper)" stroke-width="2"/>', "wire"],
      [model.wires.some((wire) => wire.down.length > 0), '<path d="M2 8h22" stroke="var(--lost)" stroke-width="2" stroke-dasharray="3 5"/>', "wire that is down"],
    ];
    const list = document.getElementById("legend");
    for (const [isShown, drawing, text] of entries) {
      if (!isShown) continue;
      const item = element("li", {});
      item.innerHTML = `<svg width="26" height="16" aria-hidden="true">${drawing}</svg>`;
      item.append(text);
      list.append(item);
    }
    const note = element("li", { textContent: `Each packet is seen for ${SEEN} s at least, however short it is.` });
    list.append(note);
  }
}

function element(name, properties) {
  return Object.assign(document.createElement(name), properties);
}
