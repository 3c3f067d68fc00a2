// The time bar: goodput of the flows, and when their ways changed.

class Timeline {
  constructor(canvas, model) {
    this.canvas = canvas;
    this.model = model;
    this.theme = readTheme();
    this.still = document.createElement("canvas");
    this.resize();
  }

  resize() {
    const { clientWidth: width, clientHeight: height } = this.canvas;
    const density = window.devicePixelRatio || 1;
    if (width === this.width && height === this.height && density === this.density) return;
    [this.width, this.height, this.density] = [width, height, density];
    for (const canvas of [this.canvas, this.still]) {
      [canvas.width, canvas.height] = [Math.round(width * density), Math.round(height * density)];
    }
    this.drawStill();
  }

  // The sides have room for the labels, and the seek bar the same.
  x(time) {
    return 8 + ((this.width - 16) * time) / Math.max(this.model.duration, 1);
  }

  time(x) {
    return (Math.min(Math.max((x - 8) / (this.width - 16), 0), 1) * this.model.duration);
  }

  // All but the mark of the present, which does not change.
  drawStill() {
    const { model, theme, width, height } = this;
    const context = this.still.getContext("2d");
    context.setTransform(this.density, 0, 0, this.density, 0, 0);
    context.clearRect(0, 0, width, height);
    const strip = 7;
    const axis = height - 16;
    const floor = axis - 4 - model.flows.length * (strip + 2);
    const top = 6;
    this.drawAxis(context, axis);
    model.flows.forEach((flow, index) => {
      const colour = theme.flows[index % FLOWS];
      const points = this.outline(flow.rates, floor, top);
      context.beginPath();
      points.forEach(([x, y], place) => context[place ? "lineTo" : "moveTo"](x, y));
      context.strokeStyle = colour;
      context.lineWidth = 1.5;
      context.lineJoin = "round";
      context.stroke();
      if (points.length > 0) {
        context.lineTo(points[points.length - 1][0], floor);
        context.lineTo(points[0][0], floor);
        context.globalAlpha = 0.14;
        context.fillStyle = colour;
        context.fill();
        context.globalAlpha = 1;
      }
      this.drawHops(context, flow, colour, floor + 3 + index * (strip + 2), strip);
    });
    context.font = "11px system-ui, sans-serif";
    context.fillStyle = theme.faint;
    context.textAlign = "left";
    const hops = model.flows.some((flow) => flow.changes.hops.some((count) => count > 0)) ? "; below, hops" : "";
    if (model.flows.length > 0) context.fillText(`goodput, up to ${inBits(model.peak)}${hops}`, 10, top + 9);
  }

  // The highest rate of each pixel.
  outline(rates, floor, top) {
    const points = [];
    const step = Math.max(1, Math.floor(rates.length / this.width));
    for (let index = 0; index < rates.length; index += step) {
      let rate = 0;
      for (let within = index; within < Math.min(index + step, rates.length); within++) rate = Math.max(rate, rates[within]);
      const x = this.x(Math.min((index + step / 2) * this.model.interval, this.model.duration));
      points.push([x, floor - ((floor - top - 12) * rate) / this.model.peak]);
    }
    return points;
  }

  // A strip that is the darker the more hops a flow takes, empty where no way leads, with a mark at
  // each change.
  drawHops(context, { changes }, colour, y, height) {
    const most = changes.hops.reduce((a, b) => Math.max(a, b), 1);
    changes.at.forEach((at, index) => {
      const end = changes.at[index + 1] ?? this.model.duration;
      const [x, width] = [this.x(at), Math.max(this.x(end) - this.x(at), 0.5)];
      context.fillStyle = colour;
      context.globalAlpha = changes.hops[index] ? 0.15 + (0.65 * changes.hops[index]) / most : 0;
      context.fillRect(x, y, width, height);
      context.globalAlpha = 1;
      context.fillStyle = this.theme.text;
      context.fillRect(x, y, 0.75, height);
      if (width > 14 && changes.hops[index]) {
        context.font = "9px system-ui, sans-serif";
        context.textAlign = "left";
        context.fillText(`${changes.hops[index]}`, x + 3, y + height - 0.5);
      }
    });
  }

  drawAxis(context, y) {
    const { theme, model, width } = this;
    const seconds = Math.max(model.duration / 1e6, 1e-6);
    const power = 10 ** Math.floor(Math.log10(seconds / 5));
    const step = [1, 2, 5, 10].map((part) => part * power).find((one) => seconds / one <= Math.max(width / 90, 1)) ?? seconds;
    context.font = "11px system-ui, sans-serif";
    context.fillStyle = theme.faint;
    for (let mark = 0; mark <= seconds + 1e-9; mark += step) {
      const x = this.x(mark * 1e6);
      context.globalAlpha = 0.35;
      context.fillRect(x, 4, 0.75, y - 2);
      context.globalAlpha = 1;
      context.textAlign = x < 20 ? "left" : x > width - 26 ? "right" : "center";
      context.fillText(`${+mark.toFixed(6)} s`, x, y + 12);
    }
  }

  draw(time) {
    const context = this.canvas.getContext("2d");
    context.setTransform(1, 0, 0, 1, 0, 0);
    context.clearRect(0, 0, this.canvas.width, this.canvas.height);
    context.drawImage(this.still, 0, 0);
    context.setTransform(this.density, 0, 0, this.density, 0, 0);
    const x = this.x(time);
    context.fillStyle = this.theme.accent;
    context.fillRect(x - 1, 0, 2, this.height - 14);
    context.beginPath();
    context.moveTo(x - 6, 0);
    context.lineTo(x + 6, 0);
    context.lineTo(x, 8);
    context.fill();
  }
}
