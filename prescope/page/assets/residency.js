// Layer by expert: where every expert was and what became of it.

function stateText(code) {
  if (code === 0) return 'not on the device, not used';
  if (code === 1) return 'resident, not used';
  const origin = timeline.origins[code - 2];
  return origin.style === 'unused' ? 'copied, not used' : origin.name;
}

function stateColour(code) {
  if (code === 0) return colours.idle;
  if (code === 1) return colours['heat-resident'];
  return fillOf(timeline.origins[code - 2].style);
}

function residencySection() {
  if (!timeline.experts) return '';
  const manySteps = timeline.steps.length > 1;
  const mode = h('select', { id: 'map-mode' }, h('option', { value: 'step' }, 'this step: layers by experts'),
    manySteps ? h('option', { value: 'layer' }, 'one layer: steps by experts') : '', manySteps ? h('option', { value: 'share' }, 'all steps: share of steps used without a copy') : '');
  const layer = h('select', { id: 'map-layer', disabled: true }, Array.from({ length: timeline.layers }, (_, at) => h('option', { value: at }, `layer ${at}`)));
  let states = null;
  let shares = null;
  let data = null;
  const codeAt = (row, column) => (mode.value === 'layer' ? states[row][Number(layer.value) * timeline.experts + column] : states[state.step][row * timeline.experts + column]);
  const cells = new Cells({
    id: 'map', label: 'Residency map', rowName: (row) => String(mode.value === 'layer' ? timeline.steps[row].number : row),
    colourOf: (row, column) => (mode.value === 'share' ? heatColour(shares[row * timeline.experts + column]) : stateColour(codeAt(row, column))),
    pairsOf: (row, column) => {
      if (mode.value === 'share') return [`Layer ${row}, expert ${column}`, [['used while resident', formatShare(shares[row * timeline.experts + column])]]];
      const [step, at] = mode.value === 'layer' ? [row, Number(layer.value)] : [state.step, row];
      const place = at * timeline.experts + column;
      const here = data && data.index === step;
      return [`Layer ${at}, expert ${column}`, [['step', timeline.steps[step].label], ['state', stateText(codeAt(row, column))],
        ['tokens', here && data.counts ? formatNumber(data.counts[place]) : null],
        ['predicted', here && data.probability && data.probability[place] !== null ? formatShare(data.probability[place]) : null]]];
    },
    onPick: (row, column) => {
      if (mode.value === 'layer') { pickStep(row); return; }
      if (mode.value === 'share' || !data || !data.schedules) return;
      const tasks = data.schedules[data.schedules.length - 1].tasks.filter((task) => task.layer === row && task.expert === column);
      const task = tasks.find((each) => each.kind === 'compute') || tasks[0];
      if (!task) return;
      select(task);
      document.getElementById('timeline-card').scrollIntoView({ behavior: calmly() });
    },
  });
  const legend = h('div', { class: 'legend' });
  const again = () => {
    if (!states) return;
    layer.disabled = mode.value !== 'layer';
    if (mode.value === 'share' && !shares) shares = residentShare(states);
    cells.resize(mode.value === 'layer' ? states.length : timeline.layers, timeline.experts);
    legend.replaceChildren(...(mode.value === 'share' ? [heatScale(100, '% of the steps')] : [
      h('span', { class: 'key' }, h('i', { class: 'block fill-idle' }), 'neither'), h('span', { class: 'key' }, h('i', { class: 'block fill-resting' }), 'resident, not used'),
      ...timeline.origins.filter((origin) => origin.used && !['dense', 'prediction'].includes(origin.style)).map((origin) => h('span', { class: 'key' }, swatch(origin.style), origin.name))]));
  };
  mode.addEventListener('change', again);
  layer.addEventListener('change', again);
  on('step', async (now) => { data = now; states = await allStates(); again(); });
  return section('residency', 'Experts on the device', 'Every cell is an expert. Hover or use the arrow keys for its numbers; click it to select its task in the timeline.',
    h('div', { class: 'bar' }, h('label', {}, 'Show ', mode), manySteps ? h('label', {}, 'of ', layer) : '', manySteps ? stepPickerSmall() : ''), cells.frame, legend);
}

function stepPickerSmall() {
  const slider = h('input', { type: 'range', min: 0, max: timeline.steps.length - 1, value: state.step, 'aria-label': 'Step of the map', oninput: () => pickStep(Number(slider.value)) });
  const label = h('output', {});
  on('step', () => { slider.value = state.step; label.textContent = timeline.steps[state.step].label; });
  return h('span', { class: 'picker' }, slider, label);
}

function residentShare(states) {
  const used = new Array(states[0].length).fill(0);
  const without = new Array(states[0].length).fill(0);
  for (const column of states) {
    column.forEach((code, at) => {
      if (code < 2 || timeline.origins[code - 2].style === 'unused') return;
      used[at] += 1;
      if (timeline.origins[code - 2].style === 'resident') without[at] += 1;
    });
  }
  return without.map((value) => value / states.length);
}
