// One row a layer, sorted by any column.

// A table that sorts when a header is pressed; cells are {value, text} or plain values.
function sortableTable(columns, rows, { caption, onPick, name }) {
  const body = h('tbody', {});
  const valueOf = (cell) => (cell !== null && typeof cell === 'object' ? cell.value : cell);
  const numeric = columns.map((_, at) => at > 0 && rows.some((row) => typeof valueOf(row[at]) === 'number'));
  let sorted = null;
  const fillBody = () => {
    const order = rows.map((_, at) => at);
    if (sorted) {
      const { column, down } = sorted;
      order.sort((a, b) => {
        const [left, right] = [valueOf(rows[a][column]), valueOf(rows[b][column])];
        if (left === null || left === undefined) return 1;
        if (right === null || right === undefined) return -1;
        const less = typeof left === 'number' && typeof right === 'number' ? left - right : String(left).localeCompare(String(right));
        return (down ? -less : less) || a - b;
      });
    }
    body.replaceChildren(...order.map((at) => h('tr', { class: onPick ? 'pick' : null, onclick: onPick ? () => onPick(at) : null },
      rows[at].map((cell, column) => {
        const value = valueOf(cell);
        const text = cell !== null && typeof cell === 'object' ? cell.text : formatAs(columns[column], value);
        const inner = onPick && column === 0 ? h('button', { type: 'button', class: 'link', 'aria-label': `${name} ${text}` }, text) : text;
        return h(column === 0 ? 'th' : 'td', { scope: column === 0 ? 'row' : null, class: numeric[column] ? 'number' : null }, inner);
      }))));
  };
  const heads = columns.map((column, at) => {
    const button = h('button', { type: 'button', class: 'sort' }, withoutUnit(column));
    const head = h('th', { scope: 'col', class: numeric[at] ? 'number' : null }, button);
    button.addEventListener('click', () => {
      const down = !(sorted && sorted.column === at && sorted.down);
      sorted = { column: at, down: sorted && sorted.column === at ? down : numeric[at] };
      heads.forEach((each, place) => { if (place === at) each.setAttribute('aria-sort', sorted.down ? 'descending' : 'ascending'); else each.removeAttribute('aria-sort'); });
      fillBody();
    });
    return head;
  });
  fillBody();
  return h('div', { class: 'scroll', tabindex: 0, role: 'region', 'aria-label': caption }, h('table', { class: 'data' },
    h('caption', { class: 'spoken' }, caption), h('thead', {}, h('tr', {}, heads)), body));
}

function layerTable(data) {
  const last = data.schedules[data.schedules.length - 1];
  const first = data.schedules[0];
  const several = data.schedules.length > 1;
  const styles = timeline.origins.filter((origin) => origin.used && origin.style !== 'dense' && origin.style !== 'prediction');
  const rows = last.layerEnds.map((end, layer) => {
    const start = layer ? last.layerEnds[layer - 1] : 0;
    const plannedTime = first.layerEnds[layer] - (layer ? first.layerEnds[layer - 1] : 0);
    const gate = last.gates[layer];
    const mine = last.tasks.filter((task) => task.layer === layer);
    const computed = mine.filter((task) => task.kind === 'compute');
    const unused = mine.filter((task) => task.kind === 'copy' && task.origin.style === 'unused').length;
    const busy = covered(mine.filter((task) => task.kind === 'compute' && task.lane === 1), gate === undefined ? start : gate, end);
    const tokens = computed.length && computed[0].tokens !== null ? computed.reduce((sum, task) => sum + task.tokens, 0) : null;
    return [layer, end - start, ...(several ? [plannedTime, { value: end - start - plannedTime, text: signedNs(end - start - plannedTime) }] : []),
      gate === undefined ? null : gate - start, gate === undefined ? null : Math.max(end - gate - busy, 0), tokens, computed.length,
      ...styles.map((origin) => (origin.style === 'unused' ? unused : computed.filter((task) => task.origin === origin).length))];
  });
  const columns = ['layer', `${several ? last.name : 'time'}_ns`, ...(several ? [`${first.name}_ns`, 'difference_ns'] : []),
    'dense part_ns', 'device waits_ns', 'expert tokens', 'experts', ...styles.map((origin) => origin.name)];
  return sortableTable(columns, rows, { caption: 'Layers', name: 'Zoom the timeline to layer', onPick: (layer) => {
    emit('layer', layer);
    document.getElementById('timeline-card').scrollIntoView({ behavior: calmly() });
  } });
}

function signedNs(ns) { return `${ns > 0 ? '+' : ''}${formatNs(ns)}`; }

// How much of a stretch the tasks fill; overlapping ones count once.
function covered(tasks, low, high) {
  let [total, until] = [0, low];
  for (const task of [...tasks].sort((a, b) => a.start - b.start)) {
    const start = Math.max(task.start, until);
    const end = Math.min(task.end, high);
    if (end > start) { total += end - start; until = end; }
  }
  return total;
}

function layersSection() {
  const frame = h('div', {});
  on('step', (data) => frame.replaceChildren(data.schedules ? layerTable(data) : h('p', { class: 'note' }, 'The tasks of this step are not in the file.')));
  return section('layers', 'Layers', 'Press a header to sort, a layer to zoom the timeline to it. "Device waits" is the time after the gate in which the device has no expert to compute.', frame);
}
