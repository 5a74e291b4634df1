// Tables, charts and maps of kinds that have no timeline.

function panelSection(panel, at) {
  const id = `panel-${at}`;
  if (panel.type === 'table') return section(id, panel.title, panel.note, sortableTable(panel.columns, panel.rows, { caption: panel.title }));
  if (panel.type === 'heat') return heatSection(id, panel);
  const frame = h('div', { class: 'figure' });
  drawnAtWidth(frame, (width) => frame.replaceChildren(panel.kind === 'bar' ? barChart(panel, width) : lineChart(panel, width)));
  const legend = panel.series.length < 2 ? '' : h('div', { class: 'legend' }, panel.series.map((series, place) => h('span', { class: 'key' }, h('i', { class: `block series-${place % 6}` }), series.name)));
  return section(id, panel.title, panel.note, frame, legend);
}

function chartFrame(panel, width, height, low, high) {
  const [left, right, top, bottom] = [62, 12, 12, 44];
  const grid = ticks(low, high, 5);
  const y = (value) => top + (height - top - bottom) * (1 - (value - low) / Math.max(high - low, 1e-12));
  const parts = [grid.places.map((place) => [s('line', { x1: left, x2: width - right, y1: y(place), y2: y(place), class: 'grid' }),
    s('text', { x: left - 6, y: y(place) + 4, 'text-anchor': 'end', class: 'tick' }, formatNumber(+place.toPrecision(6)))]),
  s('text', { x: (left + width) / 2, y: height - 6, 'text-anchor': 'middle', class: 'tick' }, panel.x_label),
  s('text', { x: 12, y: height / 2, 'text-anchor': 'middle', class: 'tick', transform: `rotate(-90 12 ${height / 2})` }, panel.y_label)];
  return { left, right, top, bottom, y, parts };
}

function known(panel) { return panel.series.flatMap((series) => series.values).filter((value) => value !== null); }

function lineChart(panel, width) {
  const height = 260;
  const values = known(panel);
  const frame = chartFrame(panel, width, height, Math.min(0, ...values), Math.max(...values, 0));
  const numeric = panel.x.every((value) => typeof value === 'number');
  const places = numeric ? panel.x : panel.x.map((_, at) => at);
  const [low, high] = [Math.min(...places), Math.max(...places)];
  const x = (value) => frame.left + ((value - low) / Math.max(high - low, 1e-12)) * (width - frame.left - frame.right);
  const marks = numeric ? ticks(low, high, Math.max(width / 90, 2)).places.map((place) => [place, formatNumber(+place.toPrecision(6))]) : panel.x.map((name, at) => [at, String(name)]);
  return s('svg', { width, height, role: 'img', 'aria-label': `${panel.title}: ${panel.series.map((series) => series.name).join(', ')}` }, frame.parts,
    marks.map(([place, name]) => s('text', { x: x(place), y: height - frame.bottom + 16, 'text-anchor': 'middle', class: 'tick' }, name)),
    panel.mark === null ? '' : s('line', { x1: x(places[panel.mark]), x2: x(places[panel.mark]), y1: frame.top, y2: height - frame.bottom, class: 'planned-line' }),
    panel.series.map((series, at) => [
      s('polyline', { points: series.values.map((value, place) => (value === null ? null : `${x(places[place]).toFixed(1)},${frame.y(value).toFixed(1)}`)).filter(Boolean).join(' '), class: `stroke-series stroke-${at % 6}` }),
      series.values.length > 200 ? '' : series.values.map((value, place) => (value === null ? '' : s('circle', { cx: x(places[place]), cy: frame.y(value), r: 3, class: `series-${at % 6}` },
        s('title', {}, `${series.name}: ${panel.x[place]} ${panel.x_label}, ${formatNumber(value)} ${panel.y_label}`))))]));
}

function barChart(panel, width) {
  const names = panel.x.map(String);
  const [left, right, row] = [Math.min(160, width * 0.36), 70, 15 * panel.series.length + 10];
  const values = known(panel);
  const most = Math.max(...values, 1e-12);
  const height = row * names.length + 30;
  const x = (value) => (Math.max(value, 0) / most) * (width - left - right);
  const short = (name) => { const room = Math.floor((left - 8) / 6.2); return name.length > room ? `${name.slice(0, Math.max(room - 1, 1))}…` : name; };
  return s('svg', { width, height, role: 'img', 'aria-label': `${panel.title}: ${panel.y_label}` },
    names.map((name, at) => [
      s('text', { x: left - 8, y: at * row + row / 2 + 4, 'text-anchor': 'end', class: at === panel.mark ? 'name' : 'tick' }, short(name), s('title', {}, name)),
      panel.series.map((series, place) => (series.values[at] === null ? '' : [
        s('rect', { x: left, y: at * row + 4 + place * 15, width: Math.max(x(series.values[at]), 1), height: 13, class: `series-${place % 6}` }, s('title', {}, `${name}, ${series.name}: ${formatNumber(series.values[at])} ${panel.y_label}`)),
        s('text', { x: left + x(series.values[at]) + 5, y: at * row + 14 + place * 15, class: 'tick' }, formatNumber(series.values[at]))])),
    ]),
    s('text', { x: left, y: height - 6, class: 'tick' }, panel.y_label));
}

function heatSection(id, panel) {
  const [rows, columns] = panel.shape;
  let values = null;
  let most = 1;
  const cells = new Cells({
    id: `${id}-map`, label: panel.title,
    colourOf: (row, column) => heatColour(Math.sqrt(values[row * columns + column] / most)),
    pairsOf: (row, column) => [`${panel.rows} ${row}, ${panel.columns} ${column}`, [[panel.unit || 'value', formatNumber(values[row * columns + column] / panel.scale)]]],
  });
  const legend = h('div', {});
  unpackColumns(panel.values).then(([column]) => {
    values = column;
    most = Math.max(column.reduce((top, value) => Math.max(top, value), 0), 1);
    cells.resize(rows, columns);
    legend.replaceChildren(heatScale(most / panel.scale, panel.unit));
  });
  on('theme', () => { if (values) legend.replaceChildren(heatScale(most / panel.scale, panel.unit)); });
  const axes = `Down: ${panel.rows}; across: ${panel.columns}.`;
  return section(id, panel.title, panel.note ? `${panel.note}. ${axes}` : axes, cells.frame, legend);
}
