// The steps in a row: what each took, one of them chosen.

// Parts of the device's time, in the order of `spent`, as a few groups that a bar can show.
const SPENT_GROUPS = [
  ['dense part', 'dense', (name) => name === 'dense'],
  ['resident experts', 'resident', (name) => name === 'resident experts'],
  ['prefetched experts', 'prefetched', (name) => name === 'prefetched experts'],
  ['late or fetched experts', 'on-demand', (name) => name === 'late experts' || name === 'fetched experts'],
  ['waiting for copies', 'unused', (name) => name.startsWith('waiting for late') || name.startsWith('waiting for copies')],
  ['waiting for the host', 'cpu', (name) => name === 'waiting for the cpu' || name === 'waiting for predictions'],
  ['other waiting', 'prediction', () => true],
];

const WAITS_FROM = 4;

function waitEnd(sums) { return sums.reduce((total, ns) => total + ns, 0); }

function groupedSpent(step) {
  const sums = SPENT_GROUPS.map(() => 0);
  for (const [name, ns] of step.spent) sums[SPENT_GROUPS.findIndex(([, , holds]) => holds(name))] += ns;
  return sums;
}

function stepPicker() {
  const last = timeline.steps.length - 1;
  const slider = h('input', { type: 'range', min: 0, max: last, value: state.step, id: 'step', 'aria-label': 'Step',
    oninput: () => pickStep(Number(slider.value)) });
  const label = h('output', { for: 'step', id: 'step-label', 'aria-live': 'polite' });
  on('step', () => {
    slider.value = state.step;
    label.textContent = `${timeline.steps[state.step].label} (${state.step + 1} of ${last + 1})`;
    slider.setAttribute('aria-valuetext', timeline.steps[state.step].label);
  });
  return h('div', { class: 'picker', role: 'group', 'aria-label': 'Step' },
    h('button', { type: 'button', 'aria-label': 'Previous step', onclick: () => pickStep(state.step - 1) }, '‹'), slider,
    h('button', { type: 'button', 'aria-label': 'Next step', onclick: () => pickStep(state.step + 1) }, '›'), label);
}

function stepsSection() {
  if (timeline.steps.length < 2) return '';
  const perToken = h('select', { id: 'steps-scale' }, h('option', { value: 'token' }, 'time per token'), h('option', { value: 'step' }, 'time per step'));
  if (timeline.steps.some((step) => step.tokens === null)) perToken.value = 'step';
  const frame = h('div', { class: 'figure' });
  const legend = h('div', { class: 'legend' });
  const draw = drawnAtWidth(frame, (width) => drawSteps(frame, legend, width, perToken.value === 'token'));
  perToken.addEventListener('change', draw);
  on('step', draw);
  return section('steps', 'Steps', 'What every step took and what the device did meanwhile. Click a bar to look at its step.',
    h('div', { class: 'bar' }, stepPicker(), h('label', {}, 'Show ', perToken)), frame, legend);
}

function drawSteps(frame, legend, width, perToken) {
  const steps = timeline.steps;
  const height = 190;
  const [left, right, top, bottom] = [58, 8, 10, 30];
  const share = (index) => (perToken && steps[index].tokens ? steps[index].tokens : 1);
  const sizes = steps.map((_, index) => lastHead(index).makespan_ns / share(index));
  const tallest = Math.max(...sizes, ...steps.map((_, index) => headOf(index)[0].makespan_ns / share(index)), 1);
  const grid = ticks(0, tallest, 4);
  const limit = Math.max(tallest, grid.places[grid.places.length - 1]);
  const y = (value) => top + (height - top - bottom) * (1 - value / limit);
  const slot = (width - left - right) / steps.length;
  const gap = slot > 6 ? Math.min(slot * 0.2, 6) : slot > 3 ? 1 : 0;
  const used = SPENT_GROUPS.map(() => false);
  const bars = steps.map((step, index) => {
    const sums = step.spent.length ? groupedSpent(step) : SPENT_GROUPS.map((_, at) => (at === 0 ? lastHead(index).makespan_ns : 0));
    let below = 0;
    const rects = sums.map((ns, at) => {
      if (ns <= 0) return '';
      used[at] = step.spent.length > 0;
      const from = below / share(index);
      below += ns;
      const [high, low] = [y(below / share(index)), y(from)];
      return s('rect', { x: left + index * slot + gap / 2, y: high, width: Math.max(slot - gap, 0.5), height: Math.max(low - high, 0),
        class: step.spent.length ? `fill-${SPENT_GROUPS[at][1]}` : 'fill-accent' });
    });
    const parts = [s('g', {}, rects)];
    // Waiting is striped: a colour alone would not say it.
    const [idle, busy] = [y(waitEnd(sums) / share(index)), y(sums.slice(0, WAITS_FROM).reduce((total, ns) => total + ns, 0) / share(index))];
    if (step.spent.length && busy > idle) parts.push(s('rect', { x: left + index * slot + gap / 2, y: idle, width: Math.max(slot - gap, 0.5), height: busy - idle, fill: 'url(#stripes)' }));
    if (headOf(index).length > 1) {
      const planned = y(headOf(index)[0].makespan_ns / share(index));
      parts.push(s('line', { x1: left + index * slot, x2: left + (index + 1) * slot, y1: planned, y2: planned, class: 'planned-line' }));
    }
    return parts;
  });
  const chosen = s('rect', { x: left + state.step * slot, y: top - 6, width: Math.max(slot, 2), height: height - top - bottom + 6, class: 'chosen' });
  const every = Math.max(1, Math.ceil(44 / slot));
  const picture = s('svg', { width, height, viewBox: `0 0 ${width} ${height}`, role: 'img', 'aria-label': `Time of ${steps.length} steps; the slider above picks one` },
    s('defs', {}, s('pattern', { id: 'stripes', width: 6, height: 6, patternUnits: 'userSpaceOnUse', patternTransform: 'rotate(45)' }, s('line', { x1: 0, x2: 0, y1: 0, y2: 6, class: 'stripe' }))),
    grid.places.map((place) => [s('line', { x1: left, x2: width - right, y1: y(place), y2: y(place), class: 'grid' }),
      s('text', { x: left - 6, y: y(place) + 4, 'text-anchor': 'end', class: 'tick' }, formatTick(place, grid.step))]),
    chosen, bars,
    steps.map((step, index) => (index % every === 0 ? s('text', { x: left + (index + 0.5) * slot, y: height - bottom + 16, 'text-anchor': 'middle', class: 'tick' }, String(steps[index].number)) : '')),
    s('rect', { x: left, y: 0, width: width - left - right, height, class: 'catch',
      onclick: (event) => pickStep(at(event)), onpointermove: (event) => hover(event, at(event)), onpointerleave: hideTooltip }));
  const at = (event) => clamp(Math.floor((event.clientX - picture.getBoundingClientRect().left - left) / slot), 0, steps.length - 1);
  frame.replaceChildren(picture);
  legend.replaceChildren(...SPENT_GROUPS.map(([name, style], place) => (used[place] ? h('span', { class: 'key' }, h('i', { class: `block fill-${style}${place >= WAITS_FROM ? ' waits' : ''}` }), name) : '')).filter(Boolean),
    headOf(0).length > 1 ? h('span', { class: 'key' }, h('i', { class: 'dash' }), headOf(0)[0].name) : '');
}

function hover(event, index) {
  const step = timeline.steps[index];
  showTooltip(event.clientX, event.clientY, step.label, [
    ...headOf(index).map((head) => [head.name, formatNs(head.makespan_ns)]),
    ['tokens', step.tokens === null ? null : formatNumber(step.tokens)],
    ['per token', step.tokens ? formatNs(lastHead(index).makespan_ns / step.tokens) : null],
    ...SPENT_GROUPS.map(([name], place) => [name, step.spent.length && groupedSpent(step)[place] ? formatShare(groupedSpent(step)[place] / lastHead(index).makespan_ns) : null]),
  ]);
}
