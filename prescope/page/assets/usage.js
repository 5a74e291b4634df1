// How busy link, GPU and CPU are over the step.

const BUCKETS = 120;

function usageOf(schedule, lane) {
  const tasks = schedule.tasks.filter((task) => task.lane === lane).sort((a, b) => a.start - b.start);
  const wide = Math.max(schedule.makespan, 1) / BUCKETS;
  const filled = new Array(BUCKETS).fill(0);
  let until = 0;
  for (const task of tasks) {
    let start = Math.max(task.start, until);
    const end = Math.min(task.end, schedule.makespan);
    until = Math.max(until, end);
    while (start < end) {
      const bucket = Math.min(Math.floor(start / wide), BUCKETS - 1);
      const stop = bucket === BUCKETS - 1 ? end : Math.min(end, (bucket + 1) * wide);
      filled[bucket] += Math.max(stop - start, 0);
      start = stop > start ? stop : end;
    }
  }
  return filled.map((value) => clamp(value / wide, 0, 1));
}

function usageSection() {
  const frame = h('div', { class: 'figure usage' });
  let data = null;
  const draw = drawnAtWidth(frame, (width) => { if (data) drawUsage(frame, data, width); });
  on('step', (now) => { data = now; draw(); });
  return section('usage', 'How busy everything was', null, frame);
}

// A slot is used from the start of its copy until its expert is computed, or, when nobody uses it, until the copy
// has landed and the gate of its layer has come.
function slotSteps(schedule) {
  const freed = new Map();
  for (const task of schedule.tasks) if (task.kind === 'compute' && task.slot !== null) freed.set(`${task.layer}:${task.expert}`, task.end);
  const changes = [];
  for (const task of schedule.tasks) {
    if (task.kind !== 'copy') continue;
    const unused = Math.max(task.end, schedule.gates[task.layer] === undefined ? task.end : schedule.gates[task.layer]);
    const end = freed.get(`${task.layer}:${task.expert}`);
    changes.push([task.start, 1], [Math.max(end === undefined ? unused : end, task.start), -1]);
  }
  changes.sort((a, b) => a[0] - b[0] || a[1] - b[1]);
  let used = 0;
  return changes.map(([time, by]) => { used += by; return [time, used]; });
}

function slotRow(data, width, left, right, tall) {
  const schedule = data.schedules[data.schedules.length - 1];
  const steps = slotSteps(schedule);
  if (!steps.length) return [];
  const most = Math.max(...steps.map(([, used]) => used));
  const limit = Math.max(timeline.slots || 0, most);
  const longest = Math.max(...data.schedules.map((each) => each.makespan), 1);
  const x = (time) => left + (clamp(time, 0, longest) / longest) * (width - left - right);
  const y = (used) => tall - 4 - (used / limit) * (tall - 8);
  let path = `M${left},${y(0)}`;
  for (const [time, used] of steps) path += `H${x(time).toFixed(1)}V${y(used).toFixed(1)}`;
  path += `H${x(schedule.makespan).toFixed(1)}V${y(0)}Z`;
  return [s('svg', { width, height: tall, role: 'img', 'aria-label': `Slots used: at most ${most}${timeline.slots ? ` of ${timeline.slots}` : ''}` },
    s('text', { x: 0, y: tall / 2 + 4, class: 'name' }, 'SLOTS'), s('rect', { x: left, y: 4, width: width - left - right, height: tall - 8, class: 'fill-idle' }),
    s('path', { d: path, class: 'area-slots' }), s('text', { x: width, y: tall / 2 + 4, 'text-anchor': 'end', class: 'value' }, timeline.slots ? `${most} of ${timeline.slots}` : `${most}`))];
}

function drawUsage(frame, data, width) {
  const heads = headOf(data.index);
  const left = 62;
  const right = 58;
  const tall = 44;
  const busy = (at) => timeline.steps.some((step) => step.schedules.some((head) => head.busy_ns[at] > 0));
  const rows = timeline.lanes.map((lane, at) => {
    if (!busy(at)) return '';
    const shares = heads.map((head) => head.busy_ns[at] / Math.max(head.makespan_ns, 1));
    const text = shares.map(formatShare).join(' / ');
    const parts = [s('text', { x: 0, y: tall / 2 + 4, class: 'name' }, lane.toUpperCase()),
      s('rect', { x: left, y: 4, width: width - left - right, height: tall - 8, class: 'fill-idle' }),
      s('text', { x: width, y: tall / 2 + 4, 'text-anchor': 'end', class: 'value' }, formatShare(shares[shares.length - 1]))];
    if (data.schedules) {
      const longest = Math.max(...data.schedules.map((schedule) => schedule.makespan), 1);
      data.schedules.forEach((schedule, place) => {
        const actual = place === data.schedules.length - 1;
        const span = ((width - left - right) * schedule.makespan) / longest;
        const points = usageOf(schedule, at).map((share, bucket) => `${(left + ((bucket + 0.5) * span) / BUCKETS).toFixed(1)},${(tall - 4 - share * (tall - 8)).toFixed(1)}`);
        if (actual) parts.push(s('polygon', { points: `${left},${tall - 4} ${points.join(' ')} ${left + span},${tall - 4}`, class: `area-${at}` }));
        else parts.push(s('polyline', { points: points.join(' '), class: 'planned-line thin' }));
      });
    }
    return s('svg', { width, height: tall, role: 'img', 'aria-label': `${lane}: busy ${heads.map((head, place) => `${formatShare(shares[place])} ${head.name}`).join(', ')}` },
      s('title', {}, `${lane}: ${heads.map((head) => head.name).join(' / ')} ${text}`), parts);
  });
  if (data.schedules) rows.push(...slotRow(data, width, left, right, tall));
  const two = heads.length > 1;
  frame.replaceChildren(...rows.filter(Boolean), h('p', { class: 'hint' }, two
    ? `Filled: ${heads[heads.length - 1].name}; dashed: ${heads.slice(0, -1).map((head) => head.name).join(', ')}. On the right the mean over the step; of the slots the most in use at once.`
    : 'Share of the time that each is busy; on the right the mean over the step; of the slots the most in use at once.'));
}
