// The timeline: a window of time over the lanes, moved by mouse, finger and keys.

class TimelineView {
  constructor() { this.full = [0, 1]; this.low = 0; this.high = 1; this.left = 96; this.right = 100; }
  perPixel() { return (this.high - this.low) / Math.max(this.right - this.left, 1); }
  timeAt(x) { return this.low + (x - this.left) * this.perPixel(); }
  xAt(time) { return this.left + (time - this.low) / this.perPixel(); }
  show(low, high) {
    const [first, last] = this.full;
    const span = clamp(high - low, Math.min(100, last - first), last - first);
    const middle = (low + high) / 2;
    this.low = clamp(middle - span / 2, first, last - span);
    this.high = this.low + span;
  }
  zoom(factor, around = (this.low + this.high) / 2) {
    // A window may not grow over the edge: the place under the pointer stays where it is as long as it can.
    this.show(around - (around - this.low) / factor, around + (this.high - around) / factor);
  }
  move(share) { const by = share * (this.high - this.low); this.show(this.low + by, this.high + by); }
}

function timelineSection() {
  const view = new TimelineView();
  const shown = new Set(headOf(0).map((head) => head.name));
  const canvas = h('canvas', { id: 'timeline', tabindex: 0, role: 'application', 'aria-label': `Timeline of ${timeline.lanes.join(', ')}`, 'aria-describedby': 'timeline-hint' });
  const overview = h('canvas', { id: 'overview', 'aria-hidden': 'true' });
  const spoken = h('p', { class: 'spoken', 'aria-live': 'polite' });
  const range = h('output', { id: 'window', 'aria-live': 'off' });
  const frame = h('div', { class: 'figure' }, canvas, overview);
  const absent = h('p', { class: 'note', hidden: true }, 'The tasks of this step are not in the file: with all of them it would be too large. Its totals and maps are below.');
  const details = taskDetails(() => zoomTo(state.selected));
  let data = null;
  let layout = null;
  const redraw = drawnAtWidth(frame, (width) => {
    if (!data || !data.schedules) return;
    view.left = width < 560 ? 70 : 108;
    view.right = width;
    layout = timelineLayout(data, shown);
    drawTimeline(canvas, layout, view, width);
    drawOverview(overview, data, view, width, shown);
    range.textContent = `${formatNs(view.low)} to ${formatNs(view.high)}`;
    canvas.dataset.low = view.low;
    canvas.dataset.high = view.high;
  });
  const change = (action) => () => { action(); hideTooltip(); redraw(); };
  const zoomTo = (task) => {
    if (!task) return;
    const room = Math.max((task.end - task.start) * 3, 1000);
    view.show(task.start - room, task.end + room);
    redraw();
  };
  on('step', (now) => {
    data = now;
    frame.hidden = !now.schedules;
    absent.hidden = Boolean(now.schedules);
    if (now.schedules) {
      view.full = fullWindow(now);
      view.show(...view.full);
    }
    redraw();
  });
  on('select', (task) => {
    if (task && (task.end < view.low || task.start > view.high)) view.show(task.start - (view.high - view.low) / 2, task.end + (view.high - view.low) / 2);
    spoken.textContent = task ? `${task.schedule}: ${taskName(task)}, ${task.origin.name}, ${formatNs(task.start)} to ${formatNs(task.end)}` : '';
    redraw();
  });
  on('layer', (layer) => {
    if (!data || !data.schedules) return;
    const schedule = data.schedules[data.schedules.length - 1];
    const [start, end] = [layer ? schedule.layerEnds[layer - 1] : 0, schedule.layerEnds[layer]];
    view.show(start - 0.05 * (end - start), end + 0.05 * (end - start));
    redraw();
  });
  pointerControls(canvas, view, () => layout, redraw);
  overviewControls(overview, view, redraw);
  canvas.addEventListener('keydown', (event) => timelineKey(event, view, () => layout, () => data, redraw, zoomTo));
  const names = [...new Set(timeline.steps.flatMap((step) => step.schedules.map((head) => head.name)))];
  const boxes = names.length < 2 ? '' : h('fieldset', { class: 'inline' }, h('legend', {}, 'Show'), names.map((name) => h('label', { title: timeline.clocks[name] || null },
    h('input', { type: 'checkbox', checked: true, onchange: (event) => {
      if (event.target.checked) shown.add(name); else if (shown.size > 1) shown.delete(name); else event.target.checked = true;
      redraw();
    } }), ` ${name}`)));
  names.forEach((name) => shown.add(name));
  return section('timeline-card', 'Timeline', null,
    h('div', { class: 'bar' }, timeline.steps.length > 1 ? '' : h('span', { id: 'step-label' }, timeline.steps[0].label),
      h('div', { class: 'buttons', role: 'group', 'aria-label': 'Zoom' },
        h('button', { type: 'button', id: 'zoom-in', 'aria-label': 'Zoom in', onclick: change(() => view.zoom(1.6)) }, '+'),
        h('button', { type: 'button', id: 'zoom-out', 'aria-label': 'Zoom out', onclick: change(() => view.zoom(1 / 1.6)) }, '−'),
        h('button', { type: 'button', 'aria-label': 'Earlier', onclick: change(() => view.move(-0.5)) }, '‹'),
        h('button', { type: 'button', 'aria-label': 'Later', onclick: change(() => view.move(0.5)) }, '›'),
        h('button', { type: 'button', id: 'zoom-all', onclick: change(() => view.show(...view.full)) }, 'Whole step')),
      boxes, range),
    absent, frame, timelineLegend(),
    h('p', { class: 'hint', id: 'timeline-hint' }, 'Click a task for its details. Drag to move; Ctrl and wheel, pinch, or + and - to zoom; N and P walk from task to task. ? lists all keys.'),
    Object.entries(timeline.clocks).map(([name, about]) => h('p', { class: 'hint' }, h('b', {}, name), `: ${about}`)),
    spoken, details);
}

function timelineLegend() {
  return h('div', { class: 'legend' },
    timeline.origins.filter((origin) => origin.used).map((origin) => h('span', { class: 'key', title: STYLES[origin.style].about }, swatch(origin.style), origin.name)),
    timeline.reasons.length ? h('span', { class: 'key' }, h('i', { class: 'critical-key' }), 'critical path') : '');
}

function pointerControls(canvas, view, layout, redraw) {
  const fingers = new Map();
  let moved = 0;
  const place = (event) => { const box = canvas.getBoundingClientRect(); return [event.clientX - box.left, event.clientY - box.top]; };
  canvas.addEventListener('pointerdown', (event) => {
    canvas.setPointerCapture(event.pointerId);
    fingers.set(event.pointerId, place(event));
    moved = 0;
    hideTooltip();
  });
  canvas.addEventListener('pointermove', (event) => {
    const [x, y] = place(event);
    const before = fingers.get(event.pointerId);
    if (!before) { tooltipAt(event, layout() && taskAt(layout(), view, x, y), view); return; }
    const others = [...fingers.entries()].filter(([id]) => id !== event.pointerId);
    if (others.length) {
      const [other] = others[0][1];
      const factor = Math.abs(x - other) / Math.max(Math.abs(before[0] - other), 1);
      if (factor > 0) view.zoom(clamp(factor, 0.5, 2), view.timeAt(other));
    } else {
      const by = (before[0] - x) * view.perPixel();
      view.show(view.low + by, view.high + by);
    }
    moved += Math.abs(x - before[0]) + Math.abs(y - before[1]);
    fingers.set(event.pointerId, [x, y]);
    redraw();
  });
  const release = (event) => {
    const held = fingers.delete(event.pointerId);
    if (!held || moved > 5 || event.type !== 'pointerup' || !layout()) return;
    const hit = taskAt(layout(), view, ...place(event));
    if (hit && hit.task) { select(hit.task); tooltipAt(event, hit, view); } else select(null);
  };
  canvas.addEventListener('pointerup', release);
  canvas.addEventListener('pointercancel', release);
  canvas.addEventListener('pointerleave', hideTooltip);
  canvas.addEventListener('dblclick', (event) => {
    const hit = layout() && taskAt(layout(), view, ...place(event));
    if (hit) emit('layer', hit.task ? hit.task.layer : hit.layer);
  });
  canvas.addEventListener('wheel', (event) => {
    const sideways = Math.abs(event.deltaX) > Math.abs(event.deltaY) || event.shiftKey;
    // The page scrolls under a wheel until the timeline has the focus.
    if (!sideways && !event.ctrlKey && !event.metaKey && document.activeElement !== canvas) return;
    event.preventDefault();
    const amount = event.deltaMode === 1 ? 16 : 1;
    if (sideways) {
      const by = (event.deltaX || event.deltaY) * amount * view.perPixel();
      view.show(view.low + by, view.high + by);
    } else view.zoom(Math.exp(clamp(-event.deltaY * amount, -200, 200) * 0.0025), view.timeAt(place(event)[0]));
    hideTooltip();
    redraw();
  }, { passive: false });
}

function overviewControls(overview, view, redraw) {
  const follow = (event) => {
    if (!(event.buttons & 1)) return;
    const box = overview.getBoundingClientRect();
    const [first, last] = view.full;
    const time = first + ((event.clientX - box.left - view.left) / (box.width - view.left)) * (last - first);
    view.show(time - (view.high - view.low) / 2, time + (view.high - view.low) / 2);
    redraw();
  };
  overview.addEventListener('pointerdown', (event) => { overview.setPointerCapture(event.pointerId); follow(event); });
  overview.addEventListener('pointermove', follow);
}
