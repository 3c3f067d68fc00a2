// `#check=0,12.5` leaves in the page, as JSON, what the player shows at these seconds; `#measure`
// writes to the console how long frames take to draw. Both are for tests.

const troubles = [];
addEventListener("error", (event) => troubles.push(`${event.message}`));
addEventListener("unhandledrejection", (event) => troubles.push(`${event.reason}`));

function check(player, times) {
  const { model, scene } = player;
  const shown = times.map((seconds) => {
    player.seek(seconds * 1e6);
    player.paint();
    return {
      time: seconds,
      clock: document.getElementById("clock").textContent,
      places: model.nodes.map((_, index) => model.position(index, seconds * 1e6)),
      ways: model.flows.map((flow) => player.details.wayOf(flow, seconds * 1e6)),
      waiting: model.nodes.map((node) => model.sample(node.waiting, seconds * 1e6)),
      packets: scene.drawn.of,
      // How many of the pixels at the places of the nodes are not those of an empty picture.
      drawn: scene.at.filter(([x, y]) => isDrawn(scene, x, y)).length,
    };
  });
  const { frames } = model;
  const sum = (column) => column.reduce((all, one) => all + one, 0);
  const totals = { frames: frames.count, start: sum(frames.start), took: sum(frames.took), kind: sum(frames.kind), flow: sum(frames.flow) };
  const said = JSON.stringify({ begins: model.begins / 1e6, shown, totals, troubles });
  document.body.append(element("pre", { id: "check", hidden: true, textContent: said }));
}

// Whether a line is near.
function isDrawn(scene, x, y) {
  const { data } = scene.context.getImageData((x - 12) * scene.density, (y - 12) * scene.density, 24, 24);
  return data.some((octet, index) => octet !== data[index % 4]);
}

// Draws some hundred frames all over the run, each until its pixels are there.
function measure(player) {
  const { model, scene } = player;
  for (const speed of [1, 10, 100]) {
    const took = [];
    for (let index = 0; index < 300; index++) {
      const time = (model.duration * (index + 0.5)) / 300;
      const begin = performance.now();
      scene.draw(time, speed);
      player.timeline.draw(time);
      scene.context.getImageData(0, 0, 1, 1);
      took.push(performance.now() - begin);
    }
    took.sort((a, b) => a - b);
    const mean = took.reduce((sum, one) => sum + one, 0) / took.length;
    console.log(`measured at ${speed}x: mean ${mean.toFixed(2)} ms, 95 % ${took[284].toFixed(2)} ms, most ${took[299].toFixed(2)} ms a frame`);
  }
  player.seek(0);
  player.setSpeed(10);
  player.toggle();
  let [frames, begin] = [0, performance.now()];
  const count = () => {
    frames++;
    const passed = performance.now() - begin;
    if (passed < 5000) requestAnimationFrame(count);
    else console.log(`measured playing: ${((frames * 1000) / passed).toFixed(1)} frames a second`);
  };
  requestAnimationFrame(count);
}
