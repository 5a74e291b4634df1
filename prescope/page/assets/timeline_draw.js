// The timeline on its canvas.

function drawTimeline(canvas, layout, view, width) {
  const context = sizeCanvas(canvas, width, layout.height);
  context.font = '11px system-ui, sans-serif';
  context.textBaseline = 'middle';
  drawAxis(context, layout, view, width);
  context.save();
  context.beginPath();
  context.rect(view.left, 0, width - view.left, layout.height);
  context.clip();
  for (const row of layout.rows) {
    if (row.ribbon) drawRibbon(context, row, view);
    else drawRow(context, row, view, width);
  }
  drawEnds(context, layout, view);
  drawSelection(context, layout, view);
  context.restore();
  drawGutter(context, layout, view);
}

function drawAxis(context, layout, view, width) {
  const grid = ticks(view.low, view.high, Math.max((width - view.left) / 110, 2));
  context.fillStyle = colours.muted;
  context.strokeStyle = colours.line;
  context.lineWidth = 1;
  for (const place of grid.places) {
    const x = Math.round(view.xAt(place)) + 0.5;
    if (x < view.left) continue;
    context.beginPath();
    context.moveTo(x, 18);
    context.lineTo(x, layout.height);
    context.stroke();
    const text = formatTick(place, grid.step);
    const half = context.measureText(text).width / 2;
    context.fillText(text, clamp(x - half, view.left, width - 2 * half - 2), 9);
  }
}

function drawRibbon(context, row, view) {
  let start = 0;
  row.schedule.layerEnds.forEach((end, layer) => {
    const [x, stop] = [view.xAt(start), view.xAt(end)];
    start = end;
    if (stop < view.left || x > view.right) return;
    context.fillStyle = layer % 2 ? colours['surface-2'] : colours.band;
    context.fillRect(x, row.y, Math.max(stop - x, 0.5), row.height);
    const text = stop - x > 44 ? `layer ${layer}` : `${layer}`;
    const room = Math.min(stop, view.right) - Math.max(x, view.left);
    if (context.measureText(text).width + 4 < room) {
      context.fillStyle = colours.ink;
      context.fillText(text, Math.max(x, view.left) + (room - context.measureText(text).width) / 2, row.y + row.height / 2 + 0.5);
    }
  });
}

function drawRow(context, row, view, width) {
  context.fillStyle = colours.idle;
  context.fillRect(view.left, row.y, width - view.left, row.height);
  const each = row.height / row.tracks;
  for (const task of row.tasks) {
    const [x, stop] = [view.xAt(task.start), view.xAt(task.end)];
    if (stop < view.left || x > view.right) continue;
    const wide = stop - x;
    const y = row.y + task.track * each;
    const tall = row.tracks > 1 ? each - 0.5 : each;
    // Below a few pixels the canvas blends neighbours by how much of a pixel each fills.
    context.fillStyle = wide > 5 ? fillOf(task.origin.style) : colours.origins[task.origin.style];
    context.fillRect(x, y, Math.max(wide - (wide > 4 ? 1 : 0), 0.3), tall);
    if (task.reason !== null && tall > 4) {
      context.fillStyle = colours.critical;
      context.fillRect(x, y + tall - 3, Math.max(wide - (wide > 4 ? 1 : 0), 0.5), 3);
    }
    if (wide > 16 && tall > 10) drawName(context, task, Math.max(x, view.left), Math.min(stop, view.right), y, tall);
  }
}

function drawName(context, task, x, stop, y, tall) {
  const { letter } = STYLES[task.origin.style];
  const long = task.expert === null ? letter : `${letter} ${task.expert}`;
  const text = [task.expert === null ? task.origin.name : `${letter} E${task.expert}`, long, letter].find((each) => context.measureText(each).width + 6 < stop - x);
  if (!text) return;
  const hatched = STYLES[task.origin.style].hatch;
  context.font = '600 11px system-ui, sans-serif';
  const size = context.measureText(text).width;
  if (hatched) {  // letters stay readable on stripes
    context.fillStyle = colours.origins[task.origin.style];
    context.fillRect(x + 2, y + 3, size + 5, tall - 9);
  }
  context.fillStyle = task.origin.style === 'late' || task.origin.style === 'unused' || task.origin.style === 'dense' ? '#ffffff' : colours['on-fill'];
  context.fillText(text, x + 4, y + (tall - 3) / 2 + 0.5);
  context.font = '11px system-ui, sans-serif';
}

// Where each schedule ends.
function drawEnds(context, layout, view) {
  for (const row of layout.rows) {
    const x = view.xAt(row.schedule.makespan);
    context.fillStyle = colours.ink;
    context.fillRect(x - 0.75, row.y - 1, 1.5, row.height + 3);
  }
}

function boxOf(layout, view, task) {
  const row = layout.rows.find((each) => !each.ribbon && each.schedule.name === task.schedule && each.lane === timeline.lanes[task.lane]);
  if (!row) return null;
  const each = row.height / row.tracks;
  return { x: view.xAt(task.start), stop: view.xAt(task.end), y: row.y + task.track * each, tall: each };
}

function drawSelection(context, layout, view) {
  const chosen = state.selected;
  if (!chosen) return;
  const box = boxOf(layout, view, chosen);
  if (!box) return;
  const schedule = layout.rows.map((row) => row.schedule).find((each) => each.name === chosen.schedule);
  const served = chosen.slot === null ? null : schedule.tasks.find((task) => task !== chosen && task.layer === chosen.layer && task.expert === chosen.expert && task.slot !== null);
  const other = served && boxOf(layout, view, served);
  context.strokeStyle = colours.accent;
  if (other) {
    const [from, to] = chosen.kind === 'copy' ? [box, other] : [other, box];
    context.lineWidth = 1.5;
    context.beginPath();
    context.moveTo(from.stop, from.y + from.tall / 2);
    const middle = (from.stop + to.x) / 2;
    context.bezierCurveTo(middle, from.y + from.tall / 2, middle, to.y + to.tall / 2, to.x, to.y + to.tall / 2);
    context.stroke();
    context.strokeRect(other.x, other.y, Math.max(other.stop - other.x, 2), other.tall);
  }
  context.lineWidth = 3;
  context.strokeRect(box.x - 1, box.y - 1, Math.max(box.stop - box.x, 2) + 2, box.tall + 2);
}

function drawGutter(context, layout, view) {
  context.clearRect(0, 0, view.left, layout.height);
  for (const row of layout.rows) {
    const middle = row.y + row.height / 2;
    context.fillStyle = colours.ink;
    context.font = '600 11px system-ui, sans-serif';
    const narrow = view.left < 80;
    if (row.name && !row.ribbon) context.fillText(row.name.toUpperCase(), 5, middle);
    context.fillStyle = colours.muted;
    context.font = '11px system-ui, sans-serif';
    const name = narrow ? row.sub.slice(0, 4) : row.sub;
    context.fillText(name, view.left - 6 - context.measureText(name).width, middle);
  }
}

// The whole step in a strip, with the stretch that is looked at.
function drawOverview(canvas, data, view, width, shown) {
  const height = 30;
  const context = sizeCanvas(canvas, width, height);
  const [low, high] = view.full;
  const x = (time) => view.left + ((time - low) / (high - low)) * (width - view.left);
  const schedule = [...data.schedules].reverse().find((each) => shown.has(each.name));
  const each = (height - 6) / timeline.lanes.length;
  for (const task of schedule.tasks) {
    context.fillStyle = colours.origins[task.origin.style];
    context.fillRect(x(task.start), 3 + task.lane * each, Math.max(x(task.end) - x(task.start), 0.3), each - 1);
  }
  context.fillStyle = colours.muted;
  context.font = '11px system-ui, sans-serif';
  context.textBaseline = 'middle';
  context.fillText(view.left < 80 ? 'all' : 'whole step', 5, height / 2);
  const [from, to] = [x(view.low), x(view.high)];
  context.fillStyle = colours.surface;
  context.globalAlpha = 0.65;
  context.fillRect(view.left, 0, from - view.left, height);
  context.fillRect(to, 0, width - to, height);
  context.globalAlpha = 1;
  context.strokeStyle = colours.accent;
  context.lineWidth = 2;
  context.strokeRect(clamp(from, view.left + 1, width - 4), 1, Math.max(Math.min(to, width - 1) - from, 3), height - 2);
}
