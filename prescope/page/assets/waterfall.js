// Two accounts of the same time: against the proved lower bound, and what the device did.

function account(parts, total, styleOf) {
  let at = 0;
  const low = Math.min(0, ...parts.reduce((sums, [, ns]) => [...sums, (sums[sums.length - 1] || 0) + ns], []));
  const high = Math.max(total, ...parts.reduce((sums, [, ns]) => [...sums, (sums[sums.length - 1] || 0) + ns], []));
  const span = Math.max(high - low, 1);
  const bar = (from, to, style) => {
    const inner = h('div', { class: `piece ${style}` });
    inner.style.left = `min(${(100 * (Math.min(from, to) - low)) / span}%, calc(100% - 2px))`;
    inner.style.width = `max(${(100 * Math.abs(to - from)) / span}%, 2px)`;
    return h('div', { class: 'track', 'aria-hidden': 'true' }, inner);
  };
  const rows = parts.filter(([, ns]) => ns !== 0).map(([name, ns]) => {
    const from = at;
    at += ns;
    return h('div', { class: 'line', role: 'row', title: timeline.abouts[name] || null },
      h('span', { role: 'rowheader' }, name), bar(from, at, styleOf(name)),
      h('span', { class: 'number', role: 'cell' }, formatNs(ns)), h('span', { class: 'number', role: 'cell' }, formatShare(ns / Math.max(total, 1))));
  });
  rows.push(h('div', { class: 'line total', role: 'row' }, h('span', { role: 'rowheader' }, 'time of the step'), bar(0, total, 'fill-ink'),
    h('span', { class: 'number', role: 'cell' }, formatNs(total)), h('span', { class: 'number', role: 'cell' }, '100 %')));
  return h('div', { class: 'waterfall', role: 'table' }, rows);
}

function spentStyle(name) {
  const [, style] = SPENT_GROUPS.find(([, , holds]) => holds(name));
  return name.startsWith('waiting') || name === 'other waiting' ? `fill-${style} waits` : `fill-${style}`;
}

function gapStyle(name) {
  return { 'lower bound': 'fill-resident', unproved: 'fill-dense', choices: 'fill-on-demand', 'late decisions': 'fill-late', 'unused copies': 'fill-unused',
    predictions: 'fill-prediction' }[name] || 'fill-cpu';
}

function waterfallSection() {
  if (!timeline.steps.some((step) => step.gap.length || step.spent.length)) return '';
  const frame = h('div', {});
  on('step', (data) => {
    const step = timeline.steps[data.index];
    const total = lastHead(data.index).makespan_ns;
    frame.replaceChildren(...[
      h('div', { class: 'two' }, step.gap.length ? h('div', {}, h('h3', {}, 'Against the lower bound'), account(step.gap, total, gapStyle)) : '',
        step.spent.length ? h('div', {}, h('h3', {}, 'What the device did'), account(step.spent, total, spentStyle)) : ''),
      explained([...step.gap, ...step.spent].filter(([, ns]) => ns !== 0)),
    ].filter(Boolean));
  });
  return section('waterfall', 'Where the time went', 'Each account sums to the time of the step, to the nanosecond.', frame);
}

function explained(parts) {
  const known = parts.filter(([name]) => timeline.abouts[name]);
  if (!known.length) return '';
  return h('details', { class: 'wide' }, h('summary', {}, 'What the parts mean'),
    h('dl', { class: 'pairs stacked' }, known.map(([name]) => h('div', {}, h('dt', {}, name), h('dd', {}, timeline.abouts[name])))));
}
