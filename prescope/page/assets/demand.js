// What the predictor said against what came.

function demandSection() {
  if (!timeline.experts || !timeline.steps.some((step) => step.counted)) return '';
  const frame = h('div', { class: 'figure' });
  let data = null;
  const scope = h('select', { id: 'demand-scope' }, h('option', { value: 'step' }, 'this step'), timeline.steps.length > 1 ? h('option', { value: 'all' }, 'all steps') : '');
  let run = 0;
  const again = async () => {
    if (!data) return;
    run += 1;
    const mine = run;
    const steps = scope.value === 'all' ? await Promise.all(timeline.steps.map((_, index) => readDemand(index))) : [data];
    if (mine === run) drawDemand(frame, steps);
  };
  scope.addEventListener('change', again);
  on('step', (now) => { data = now; if (scope.value === 'step') again(); });
  return section('demand', 'Demand: predicted and true', 'Predictions are those made at the gate before the layer. A calibrated predictor lies on the diagonal.',
    timeline.steps.length > 1 ? h('div', { class: 'bar' }, h('label', {}, 'Over ', scope)) : '', frame);
}

function drawDemand(frame, steps) {
  const known = steps.filter((step) => step.counts && step.probability);
  if (!known.length) {
    const counted = steps.filter((step) => step.counts);
    frame.replaceChildren(...(counted.length ? [h('p', { class: 'hint' }, 'No predictions were recorded. The map shows the true demand.'), ...demandMap(counted)]
      : [h('p', { class: 'note' }, 'The demand of this step is not known, or not in the file: with all of it the file would be too large.')]));
    return;
  }
  const rows = demandRows(known);
  frame.replaceChildren(h('div', { class: 'two' },
    h('div', {}, h('h3', {}, 'Probability said, share that came'), calibrationChart(known)),
    h('div', {}, h('h3', {}, 'Expected tokens, true tokens'), tokensChart(known))),
  h('h3', {}, 'By layer'),
  sortableTable(['layer', 'activated experts', 'expected experts', 'recall_share', 'token error', 'Brier score'], rows, { caption: 'Predictions by layer' }),
  h('p', { class: 'hint' }, 'Per step. Recall: of the activated experts, the share among as many that the predictor ranked first. Token error: mean distance between expected and true tokens of an expert. Brier score: mean squared distance between probability and outcome; 0 is perfect.'));
}

function demandRows(steps) {
  const { experts } = timeline;
  return Array.from({ length: timeline.layers }, (_, layer) => {
    const sums = { active: 0, expected: 0, hits: 0, error: 0, brier: 0, seen: 0 };
    for (const step of steps) {
      const from = layer * experts;
      const said = step.probability.slice(from, from + experts);
      if (said[0] === null) continue;
      const came = step.counts.slice(from, from + experts);
      const active = came.filter((count) => count > 0).length;
      const rank = said.map((_, at) => at).sort((a, b) => said[b] - said[a] || a - b).slice(0, active);
      sums.seen += 1;
      sums.active += active;
      sums.expected += said.reduce((total, value) => total + value, 0);
      sums.hits += rank.filter((at) => came[at] > 0).length;
      sums.brier += said.reduce((total, value, at) => total + (value - (came[at] > 0 ? 1 : 0)) ** 2, 0) / experts;
      sums.error += step.expected ? came.reduce((total, count, at) => total + Math.abs(count - step.expected[from + at]), 0) / experts : 0;
    }
    const mean = (value) => (sums.seen ? value / sums.seen : null);
    return [layer, mean(sums.active), mean(sums.expected), sums.active ? sums.hits / sums.active : null, steps[0].expected ? mean(sums.error) : null, mean(sums.brier)];
  });
}

function eachPrediction(steps, visit) {
  for (const step of steps) step.counts.forEach((count, at) => { if (step.probability[at] !== null) visit(step.probability[at], step.expected && step.expected[at], count); });
}

function calibrationChart(steps) {
  const bins = Array.from({ length: 10 }, () => ({ said: 0, came: 0, size: 0 }));
  eachPrediction(steps, (said, _, count) => {
    const bin = bins[Math.min(Math.floor(said * 10), 9)];
    bin.said += said;
    bin.came += count > 0 ? 1 : 0;
    bin.size += 1;
  });
  const most = Math.max(...bins.map((bin) => bin.size));
  const points = bins.filter((bin) => bin.size).map((bin) => ({ x: bin.said / bin.size, y: bin.came / bin.size, radius: 3 + 7 * Math.sqrt(bin.size / most),
    title: `said ${formatShare(bin.said / bin.size)}, came ${formatShare(bin.came / bin.size)}, ${plural(bin.size, 'expert')}` }));
  return scatter(points, 1, 1, 'probability said', 'share that came', true);
}

function tokensChart(steps) {
  const groups = new Map();
  let most = 1;
  eachPrediction(steps, (_, expected, count) => {
    if (expected === null || expected === undefined) return;
    const key = `${Math.round(expected * 4) / 4}:${count}`;
    groups.set(key, (groups.get(key) || 0) + 1);
    most = Math.max(most, expected, count);
  });
  if (!groups.size) return h('p', { class: 'hint' }, 'Not recorded.');
  const largest = Math.max(...groups.values());
  const points = [...groups].map(([key, size]) => {
    const [x, y] = key.split(':').map(Number);
    return { x, y, radius: 1.6 + 6 * Math.sqrt(size / largest), title: `expected ${x}, true ${y}: ${plural(size, 'expert')}` };
  });
  return scatter(points, most, most, 'expected tokens', 'true tokens', false);
}

function scatter(points, xMost, yMost, xLabel, yLabel, joined) {
  const [width, height, left, bottom] = [360, 240, 46, 38];
  const x = (value) => left + (value / xMost) * (width - left - 12);
  const y = (value) => height - bottom - (value / yMost) * (height - bottom - 12);
  const [across, up] = [ticks(0, xMost, 5), ticks(0, yMost, 5)];
  const line = points.map((point) => `${x(point.x).toFixed(1)},${y(point.y).toFixed(1)}`).join(' ');
  return s('svg', { viewBox: `0 0 ${width} ${height}`, class: 'chart', role: 'img', 'aria-label': `${xLabel} against ${yLabel}, ${points.length} points` },
    across.places.map((place) => [s('line', { x1: x(place), x2: x(place), y1: 12, y2: height - bottom, class: 'grid' }), s('text', { x: x(place), y: height - bottom + 15, 'text-anchor': 'middle', class: 'tick' }, formatNumber(+place.toFixed(6)))]),
    up.places.map((place) => [s('line', { x1: left, x2: width - 12, y1: y(place), y2: y(place), class: 'grid' }), s('text', { x: left - 6, y: y(place) + 4, 'text-anchor': 'end', class: 'tick' }, formatNumber(+place.toFixed(6)))]),
    s('line', { x1: x(0), y1: y(0), x2: x(Math.min(xMost, yMost)), y2: y(Math.min(xMost, yMost)), class: 'planned-line' }),
    joined ? s('polyline', { points: line, class: 'stroke-accent' }) : '',
    points.map((point) => s('circle', { cx: x(point.x), cy: y(point.y), r: point.radius, class: 'dot' }, s('title', {}, point.title))),
    s('text', { x: (width + left) / 2, y: height - 4, 'text-anchor': 'middle', class: 'tick' }, xLabel),
    s('text', { x: 12, y: height / 2 - 12, 'text-anchor': 'middle', class: 'tick', transform: `rotate(-90 12 ${height / 2 - 12})` }, yLabel));
}

let demandCells = null;

function demandMap(steps) {
  const sums = new Array(timeline.layers * timeline.experts).fill(0);
  for (const step of steps) step.counts.forEach((count, at) => { sums[at] += count; });
  const most = Math.max(...sums, 1);
  if (!demandCells) {
    demandCells = new Cells({ id: 'demand-map', label: 'True demand',
      colourOf: (row, column) => demandCells.colour(row, column), pairsOf: (row, column) => demandCells.pairs(row, column) });
  }
  demandCells.colour = (row, column) => heatColour(Math.sqrt(sums[row * timeline.experts + column] / most));
  demandCells.pairs = (row, column) => [`Layer ${row}, expert ${column}`, [['tokens', formatNumber(sums[row * timeline.experts + column])]]];
  demandCells.resize(timeline.layers, timeline.experts);
  return [demandCells.frame, heatScale(most, 'tokens')];
}
