// The page: what there is, in the order of the questions asked.

function summary() {
  const frame = h('div', { class: 'numbers', 'aria-live': 'off' });
  on('step', (data) => {
    const step = timeline.steps[data.index];
    const heads = step.schedules;
    const last = heads[heads.length - 1];
    const bound = step.gap.find(([name]) => name === 'lower bound');
    const tile = (name, value, about) => h('div', { class: 'number-tile' }, h('span', {}, name), h('b', {}, value), about ? h('small', {}, about) : '');
    const above = bound && bound[1] ? last.makespan_ns / bound[1] - 1 : null;
    frame.replaceChildren(...[
      ...heads.map((head, at) => tile(head.name, formatNs(head.makespan_ns), at ? against(head, heads[0]) : '')),
      bound ? tile('lower bound', formatNs(bound[1]), above === null ? '' : above >= 1 ? `${last.name} is ${(1 + above).toFixed(1)} times it` : `${last.name} is ${formatShare(above)} above it`) : '',
      step.tokens ? tile('per token', formatNs(last.makespan_ns / step.tokens), plural(step.tokens, 'token')) : '',
      ...timeline.lanes.map((lane, at) => (!timeline.steps.some((each) => each.schedules.some((head) => head.busy_ns[at] > 0)) ? '' : tile(`${lane} busy`, formatShare(last.busy_ns[at] / Math.max(last.makespan_ns, 1)), formatNs(last.busy_ns[at])))),
    ].filter(Boolean));
  });
  const facts = h('dl', { class: 'facts small' });
  on('step', (data) => facts.replaceChildren(...timeline.steps[data.index].facts.map(([name, value]) => h('div', {}, h('dt', {}, name), h('dd', {}, value)))));
  return h('section', { class: 'card', 'aria-label': 'Numbers of the step' }, frame, facts);
}

function against(head, base) {
  if (head.makespan_ns === base.makespan_ns || !base.makespan_ns) return `as ${base.name}`;
  const share = head.makespan_ns / base.makespan_ns - 1;
  if (share >= 1) return `${(1 + share).toFixed(1)} times ${base.name}`;
  return `${formatShare(Math.abs(share))} ${share > 0 ? 'above' : 'below'} ${base.name}`;
}

function build() {
  readColours();
  const dialog = helpDialog();
  const parts = [pageHeader(dialog)];
  const main = h('main', { id: 'main' });
  if (timeline) main.append(...[stepsSection(), summary(), timelineSection(), waterfallSection(), usageSection(), layersSection(), residencySection(), demandSection()].filter(Boolean));
  main.append(...doc.panels.map(panelSection), provenanceSection());
  parts.push(main, dialog, tooltip);
  const app = document.getElementById('app');
  app.append(h('a', { class: 'skip', href: '#main' }, 'Skip to the figures'), ...parts);
  document.addEventListener('keydown', (event) => {
    const typing = ['TEXTAREA', 'SELECT'].includes(event.target.tagName) || event.ctrlKey || event.metaKey || event.altKey;
    if (typing || dialog.open) return;
    if (timeline && event.key === '?') dialog.showModal();
    else if (timeline && event.key === ',') pickStep(state.step - 1);
    else if (timeline && event.key === '.') pickStep(state.step + 1);
  });
  const ready = () => { Object.assign(document.documentElement.dataset, { ready: 'yes', readyMs: performance.now() }); };
  // Two frames on, everything has been measured and drawn.
  (timeline ? showStep() : Promise.resolve()).then(() => requestAnimationFrame(() => requestAnimationFrame(ready)));
}

// On paper the page is light whatever the screen is.
for (const moment of ['beforeprint', 'afterprint']) window.addEventListener(moment, () => { readColours(); emit('theme'); });

function complain(error) {
  document.getElementById('app').prepend(h('p', { class: 'page-error', role: 'alert' },
    `This page cannot show its data: ${error && error.message ? error.message : error}. It needs a browser of 2023 or later.`));
  console.error(error);
}

window.addEventListener('error', (event) => complain(event.error || event.message));
window.addEventListener('unhandledrejection', (event) => complain(event.reason));
try { build(); } catch (error) { complain(error); }
