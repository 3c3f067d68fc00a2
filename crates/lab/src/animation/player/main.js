// The player: a clock, and what its user does to it.

const SPEEDS = [0.001, 0.003, 0.01, 0.03, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100];

class Player {
  constructor(model) {
    this.model = model;
    this.scene = new Scene(document.getElementById("scene"), model);
    this.timeline = new Timeline(document.getElementById("timeline"), model);
    this.details = new Details(model, this.scene);
    this.time = 0;
    this.speed = 1;
    this.isPlaying = false;
    this.isStale = true;
    this.find();
    this.listen();
  }

  find() {
    const byId = (id) => document.getElementById(id);
    [this.playButton, this.clock, this.seekBar, this.speedList, this.saying] =
      ["play", "clock", "seek", "speed", "said"].map(byId);
    for (const speed of SPEEDS) this.speedList.append(new Option(`${speed} ×`, speed));
    this.speedList.value = "1";
    this.seekBar.max = Math.ceil(this.model.duration / 1e3);
    const { nodes, flows, frames } = this.model;
    byId("about").textContent =
      [plural(nodes.length, "node"), plural(flows.length, "flow"), plural(frames.total, "packet"), inSeconds(this.model.duration, 1)].join(" · ");
  }

  listen() {
    const on = (id, act) => document.getElementById(id).addEventListener("click", act);
    on("play", () => this.toggle());
    on("back", () => this.step(-1));
    on("on", () => this.step(1));
    on("fit", () => this.fit());
    this.speedList.addEventListener("change", () => this.setSpeed(+this.speedList.value));
    this.seekBar.addEventListener("input", () => this.seek(this.seekBar.value * 1e3));
    this.seekBar.addEventListener("change", () => this.say());
    // A range has its own idea of where its ends are; the bar knows better.
    const drag = (event) => {
      if (event.buttons !== 1) return;
      event.preventDefault();
      this.seek(this.timeline.time(event.clientX - this.seekBar.getBoundingClientRect().left));
    };
    this.seekBar.addEventListener("pointerdown", (event) => {
      this.seekBar.setPointerCapture(event.pointerId);
      this.seekBar.focus();
      drag(event);
    });
    this.seekBar.addEventListener("pointermove", drag);
    this.seekBar.addEventListener("pointerup", () => this.say());
    this.details.node.addEventListener("change", () => this.select(this.details.node.value === "" ? -1 : +this.details.node.value));
    for (const button of document.querySelectorAll("[data-layer]")) {
      button.addEventListener("click", () => this.switchLayer(button.dataset.layer));
    }
    addEventListener("keydown", (event) => this.handleKey(event));
    addEventListener("hashchange", () => this.followHash());
    const stale = () => (this.isStale = true);
    new ResizeObserver(() => {
      if (this.scene.resize() && !this.isMoved) this.scene.fit();
      this.timeline.resize();
      // At once: a canvas of another size is empty.
      this.paint();
    }).observe(document.getElementById("stage"));
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
      this.scene.setTheme();
      this.timeline.theme = readTheme();
      this.timeline.drawStill();
      stale();
    });
    this.listenToPointer();
  }

  listenToPointer() {
    const { scene } = this;
    const { canvas } = scene;
    const pointers = new Map();
    let moved = 0;
    const place = (event) => {
      const { left, top } = canvas.getBoundingClientRect();
      return [event.clientX - left, event.clientY - top];
    };
    canvas.addEventListener("wheel", (event) => {
      event.preventDefault();
      scene.zoom(Math.exp(-event.deltaY * 0.0015), ...place(event));
      this.isMoved = this.isStale = true;
    }, { passive: false });
    canvas.addEventListener("pointerdown", (event) => {
      canvas.setPointerCapture(event.pointerId);
      pointers.set(event.pointerId, place(event));
      moved = 0;
      canvas.classList.add("dragging");
    });
    canvas.addEventListener("pointermove", (event) => {
      const before = pointers.get(event.pointerId);
      if (!before) return;
      const now = place(event);
      const other = [...pointers].find(([id]) => id !== event.pointerId)?.[1];
      if (other) {
        const distance = ([x, y]) => Math.hypot(x - other[0], y - other[1]) || 1;
        scene.zoom(distance(now) / distance(before), ...other);
      } else {
        scene.move(now[0] - before[0], now[1] - before[1]);
      }
      moved += Math.hypot(now[0] - before[0], now[1] - before[1]);
      pointers.set(event.pointerId, now);
      if (moved > 4) this.isMoved = true;
      this.isStale = true;
    });
    const release = (event) => {
      if (pointers.delete(event.pointerId) && moved < 4 && event.type === "pointerup") {
        this.select(scene.nodeAt(...place(event), this.time));
      }
      canvas.classList.remove("dragging");
    };
    canvas.addEventListener("pointerup", release);
    canvas.addEventListener("pointercancel", release);
  }

  handleKey(event) {
    if (event.ctrlKey || event.metaKey || event.altKey || event.target.tagName === "SELECT") return;
    const jump = event.shiftKey ? 1e7 : 1e6;
    const layers = { g: "ranges", l: "links", r: "routes", p: "packets", n: "names" };
    const acts = {
      " ": () => this.toggle(),
      ArrowLeft: () => this.jump(this.time - jump),
      ArrowRight: () => this.jump(this.time + jump),
      ",": () => this.step(-1),
      ".": () => this.step(1),
      "[": () => this.jump(this.neighbour(this.model.pathChanges, -1)),
      "]": () => this.jump(this.neighbour(this.model.pathChanges, 1)),
      "-": () => this.setSpeed(SPEEDS[Math.max(SPEEDS.indexOf(this.speed) - 1, 0)]),
      "+": () => this.setSpeed(SPEEDS[Math.min(SPEEDS.indexOf(this.speed) + 1, SPEEDS.length - 1)]),
      Home: () => this.jump(0),
      End: () => this.jump(this.model.duration),
      f: () => this.fit(),
      Escape: () => this.select(-1),
    };
    acts["="] = acts["+"];
    const act = acts[event.key] ?? (layers[event.key] && (() => this.switchLayer(layers[event.key])));
    // A button that has the focus takes the space bar itself.
    if (!act || (event.key === " " && event.target.tagName === "BUTTON")) return;
    event.preventDefault();
    act();
  }

  // `#t=30` begins there, and waits.
  followHash() {
    const wanted = new URLSearchParams(location.hash.slice(1));
    if (!wanted.has("t")) return false;
    this.pause();
    this.jump(parseFloat(wanted.get("t")) * 1e6);
    if (wanted.has("speed")) this.setSpeed(parseFloat(wanted.get("speed")));
    if (wanted.has("node")) this.select(this.model.nodes.findIndex((node) => node.name === wanted.get("node")));
    return true;
  }

  toggle() {
    if (this.isPlaying) return this.pause();
    if (this.time >= this.model.duration) this.time = 0;
    this.isPlaying = true;
    this.before = undefined;
    this.playButton.textContent = "❚❚";
    this.playButton.setAttribute("aria-label", "Pause");
  }

  pause() {
    this.isPlaying = false;
    this.playButton.textContent = "▶";
    this.playButton.setAttribute("aria-label", "Play");
    this.say();
  }

  seek(time) {
    this.time = Math.min(Math.max(time || 0, 0), this.model.duration);
    this.isStale = true;
  }

  jump(time) {
    this.seek(time);
    this.say();
  }

  // The nearest of sorted times before or after the present.
  neighbour(times, direction) {
    if (direction > 0) return times[countUntil(times, this.time)] ?? this.model.duration;
    let before = countUntil(times, this.time) - 1;
    while (before >= 0 && times[before] >= this.time) before--;
    return times[before] ?? 0;
  }

  // To the beginning of another packet; a little later, so that it is on its way.
  step(direction) {
    this.pause();
    const { start } = this.model.frames;
    const ahead = 0.25 * SEEN * 1e6 * this.speed;
    const now = this.time - ahead;
    let index = countUntil(start, now + (direction > 0 ? 0.5 : -0.5)) - (direction > 0 ? 0 : 1);
    index = Math.min(Math.max(index, 0), start.length - 1);
    this.jump((start[index] ?? 0) + ahead);
  }

  setSpeed(speed) {
    this.speed = speed;
    this.speedList.value = `${speed}`;
    this.isStale = true;
  }

  fit() {
    this.isMoved = false;
    this.scene.fit();
    this.isStale = true;
  }

  select(node) {
    this.scene.selected = node;
    this.isStale = true;
    this.say();
  }

  switchLayer(layer) {
    const { layers } = this.scene;
    layers[layer] = !layers[layer];
    document.querySelector(`[data-layer=${layer}]`).setAttribute("aria-pressed", layers[layer]);
    this.isStale = true;
  }

  // Tells in words what the picture shows, for those who do not see it.
  say() {
    const flows = this.model.flows.slice(0, 2).map((flow) =>
      `${flow.name}: ${inBits(this.model.sample(flow.rates, this.time))}, ${this.details.wayOf(flow, this.time)}`);
    const text = [`At ${inSeconds(this.time)}`, ...flows].join("; ");
    this.saying.textContent = text;
    this.seekBar.setAttribute("aria-valuetext", text);
    this.scene.canvas.setAttribute("aria-label", `The network. ${text}`);
  }

  tick(now) {
    requestAnimationFrame((next) => this.tick(next));
    if (this.isPlaying) {
      // A page that was in the background does not jump when it comes back.
      const passed = Math.min(now - (this.before ?? now), 100);
      this.before = now;
      this.seek(this.time + passed * 1e3 * this.speed);
      if (this.time >= this.model.duration) this.pause();
    }
    if (this.isStale) this.paint();
  }

  paint() {
    this.isStale = false;
    this.scene.draw(this.time, this.speed);
    this.timeline.draw(this.time);
    const digits = this.speed < 0.1 ? 4 : 2;
    this.clock.textContent = `${inSeconds(this.time, digits)} / ${inSeconds(this.model.duration, 0)}`;
    if (document.activeElement !== this.seekBar || this.isPlaying) this.seekBar.value = this.time / 1e3;
    // Text that changes sixty times a second nobody can read.
    const now = performance.now();
    if (!this.isPlaying || now - (this.told ?? 0) > 150) {
      this.told = now;
      this.details.update(this.time);
    }
  }
}

async function begin() {
  document.documentElement.classList.add("js");
  const player = new Player(new Model(await load()));
  const wanted = new URLSearchParams(location.hash.slice(1));
  if (wanted.has("check")) return check(player, wanted.get("check").split(",").map(Number));
  player.jump(player.model.begins);
  if (wanted.has("measure")) measure(player);
  else if (!player.followHash() && !matchMedia("(prefers-reduced-motion: reduce)").matches) player.toggle();
  requestAnimationFrame((now) => player.tick(now));
}

begin().catch((error) => {
  document.documentElement.classList.remove("js");
  const trouble = document.getElementById("trouble");
  trouble.hidden = false;
  trouble.textContent = `The run cannot be played: ${error.message}.`;
  throw error;
});
