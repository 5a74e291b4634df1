// What is known of one task: in the tooltip, and below the timeline once it is selected.

function taskPairs(task) {
  return [
    ['schedule', task.schedule],
    ['why', task.origin.name],
    ['layer', String(task.layer)],
    ['expert', task.expert === null ? null : String(task.expert)],
    ['tokens', task.tokens === null ? null : formatNumber(task.tokens)],
    ['start', formatNs(task.start)],
    ['end', formatNs(task.end)],
    ['duration', formatNs(task.end - task.start)],
    ['bytes', task.kind === 'copy' && timeline.expert_bytes.length ? `${formatBytes(timeline.expert_bytes[task.layer])}, ${formatNumber(+(timeline.expert_bytes[task.layer] / Math.max(task.end - task.start, 1)).toPrecision(3))} GB/s` : null],
    ['slot', task.slot === null ? null : String(task.slot)],
    ['critical path', task.reason === null ? null : `yes: ${task.reason}`],
  ];
}

function tooltipAt(event, hit) {
  if (!hit) hideTooltip();
  else if (hit.task) showTooltip(event.clientX, event.clientY, taskName(hit.task), taskPairs(hit.task));
  else {
    const ends = hit.row.schedule.layerEnds;
    const start = hit.layer ? ends[hit.layer - 1] : 0;
    showTooltip(event.clientX, event.clientY, `Layer ${hit.layer}`, [['schedule', hit.row.schedule.name], ['start', formatNs(start)],
      ['gate', hit.row.schedule.gates[hit.layer] === undefined ? null : formatNs(hit.row.schedule.gates[hit.layer])],
      ['end', formatNs(ends[hit.layer])], ['duration', formatNs(ends[hit.layer] - start)]]);
  }
}

// The same work in the other schedules, and what it took there.
function twinsOf(data, task) {
  const same = (other) => other.kind === task.kind && other.layer === task.layer && other.expert === task.expert;
  return data.schedules.filter((schedule) => schedule.name !== task.schedule).map((schedule) => [schedule.name, schedule.tasks.find(same)]);
}

function taskDetails(zoom) {
  const box = h('div', { class: 'details', hidden: true, id: 'details' });
  let data = null;
  on('step', (now) => { data = now; box.hidden = true; });
  on('select', (task) => {
    box.hidden = !task;
    if (!task) return;
    const pairs = taskPairs(task).filter(([, value]) => value !== null);
    for (const [name, twin] of twinsOf(data, task)) {
      const later = twin && twin.start - task.start;
      pairs.push([name, twin ? `${formatNs(twin.start)} to ${formatNs(twin.end)}, starts ${later === 0 ? 'at the same time' : `${formatNs(Math.abs(later))} ${later > 0 ? 'later' : 'earlier'}`}` : 'no such task']);
    }
    const copied = task.slot !== null && task.kind === 'compute' && data.schedules.find((each) => each.name === task.schedule).tasks
      .find((other) => other.kind === 'copy' && other.layer === task.layer && other.expert === task.expert);
    if (copied) pairs.push(['its copy', `${formatNs(copied.start)} to ${formatNs(copied.end)}, landed ${formatNs(Math.max(task.start - copied.end, 0))} before it was used`]);
    box.replaceChildren(h('h3', {}, swatch(task.origin.style), ` ${taskName(task)}`), h('p', {}, STYLES[task.origin.style].about),
      h('dl', { class: 'pairs' }, pairs.map(([name, value]) => h('div', {}, h('dt', {}, name), h('dd', {}, value)))),
      h('div', { class: 'buttons' }, h('button', { type: 'button', onclick: zoom }, 'Zoom to it'),
        h('button', { type: 'button', onclick: () => select(null) }, 'Close')));
  });
  return box;
}

function timelineKey(event, view, getLayout, getData, redraw, zoomTo) {
  const layout = getLayout();
  if (!layout || event.ctrlKey || event.metaKey || event.altKey) return;
  const rows = layout.rows.filter((row) => !row.ribbon);
  const rowOf = (task) => rows.find((row) => row.tasks.includes(task));
  const nearest = (row) => {
    const middle = state.selected ? (state.selected.start + state.selected.end) / 2 : (view.low + view.high) / 2;
    return row.tasks.reduce((best, task) => (!best || Math.abs(task.start + task.end - 2 * middle) < Math.abs(best.start + best.end - 2 * middle) ? task : best), null);
  };
  const walk = (by) => {
    const row = (state.selected && rowOf(state.selected)) || rows.find((each) => each.tasks.length);
    if (!row) return;
    const at = state.selected ? row.tasks.indexOf(state.selected) + by : row.tasks.indexOf(row.tasks.find((task) => task.end >= view.low));
    if (row.tasks[at]) select(row.tasks[at]);
  };
  const lane = (by) => {
    const at = state.selected ? rows.indexOf(rowOf(state.selected)) + by : 0;
    for (let index = at; index >= 0 && index < rows.length; index += by) if (rows[index].tasks.length) { select(nearest(rows[index])); return; }
  };
  const critical = () => {
    const schedule = getData().schedules.find((each) => each.name === (state.selected || {}).schedule) || layout.rows[layout.rows.length - 1].schedule;
    const chain = schedule.tasks.filter((task) => task.reason !== null).sort((a, b) => a.start - b.start || a.end - b.end);
    const at = chain.indexOf(state.selected);
    const next = at >= 0 ? chain[at + 1] : chain.find((task) => !state.selected || task.start >= state.selected.start);
    if (next) select(next);
  };
  const keys = {
    '+': () => view.zoom(1.6), '=': () => view.zoom(1.6), '-': () => view.zoom(1 / 1.6), '0': () => view.show(...view.full),
    ArrowLeft: () => view.move(event.shiftKey ? -1 : -0.15), ArrowRight: () => view.move(event.shiftKey ? 1 : 0.15),
    ArrowUp: () => lane(-1), ArrowDown: () => lane(1), n: () => walk(1), p: () => walk(-1), N: () => walk(1), P: () => walk(-1),
    c: critical, C: critical, Enter: () => zoomTo(state.selected), Escape: () => select(null), Home: () => view.show(...view.full),
  };
  if (!keys[event.key]) return;
  event.preventDefault();
  keys[event.key]();
  hideTooltip();
  redraw();
}
