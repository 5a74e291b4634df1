// The embedded document and what is looked at now.

const doc = JSON.parse(document.getElementById('data').textContent);
const timeline = doc.timeline;
const state = { step: timeline ? timeline.start : 0, selected: null };

const unpacked = new Map();

// One step in full; null for tasks that the file does not hold.
function stepData(index) {
  if (!unpacked.has(index)) {
    if (unpacked.size >= 12) unpacked.delete(unpacked.keys().next().value);
    unpacked.set(index, readStep(index));
  }
  return unpacked.get(index);
}

// What was asked of one step, and what was predicted; null for what is not known or not in the file.
async function readDemand(index) {
  const { demand } = timeline.steps[index];
  const [counts, probability, expected] = demand === null ? [[], [], []] : await unpackColumns(demand);
  const scaled = (column, scale) => (column.length ? column.map((value) => (value < 0 ? null : value / scale)) : null);
  return {
    index,
    counts: counts.length ? counts : null,
    probability: scaled(probability, timeline.probability_scale),
    expected: scaled(expected, timeline.tokens_scale),
  };
}

async function readStep(index) {
  const packed = timeline.steps[index];
  const data = { ...await readDemand(index), schedules: null };
  if (packed.tasks !== null) {
    const columns = await unpackColumns(packed.tasks);
    const count = packed.schedules.length;
    data.schedules = packed.schedules.map((head, place) => readSchedule(head, columns.filter((_, at) => at % count === place), data.counts));
  }
  return data;
}

function readSchedule(head, columns, counts) {
  const [ends, lane, kind, layers, expert, slot, gap, duration, origin, reason] = columns;
  const layer = summed(layers);
  const tasks = new Array(lane.length);
  const gates = {};
  let end = 0;
  for (let at = 0; at < lane.length; at += 1) {
    const start = gap[at] + (at > 0 && lane[at] === lane[at - 1] ? end : 0);
    end = start + duration[at];
    const task = {
      schedule: head.name, id: at, lane: lane[at], kind: timeline.kinds[kind[at]], layer: layer[at],
      expert: expert[at] < 0 ? null : expert[at], slot: slot[at] < 0 ? null : slot[at], start, end,
      origin: timeline.origins[origin[at]], reason: reason[at] ? timeline.reasons[reason[at] - 1] : null, tokens: null,
    };
    if (task.expert !== null && counts) task.tokens = counts[task.layer * timeline.experts + task.expert];
    if (task.kind === 'dense') gates[task.layer] = end;
    tasks[at] = task;
  }
  return { name: head.name, makespan: head.makespan_ns, layerEnds: summed(ends), gates, tasks };
}

let statesRead = null;

// What became of every expert in every step: 0 nothing, 1 resident and idle, else 2 + origin.
function allStates() {
  if (!statesRead) {
    statesRead = unpackColumns(timeline.states).then((columns) => {
      for (let step = 1; step < columns.length; step += 1) {
        for (let at = 0; at < columns[step].length; at += 1) columns[step][at] += columns[step - 1][at];
      }
      return columns;
    });
  }
  return statesRead;
}

function pickStep(index) {
  const next = clamp(index, 0, timeline.steps.length - 1);
  if (next === state.step) return;
  state.step = next;
  state.selected = null;
  showStep();
}

// Decode, then tell everyone; a step picked meanwhile wins.
async function showStep() {
  const wanted = state.step;
  const data = await stepData(wanted);
  if (wanted !== state.step) return;
  emit('step', data);
}

function select(task) {
  state.selected = task;
  emit('select', task);
}

function taskName(task) {
  if (task.kind === 'dense') return `Layer ${task.layer}, dense part`;
  if (task.kind === 'predict') return `Layer ${task.layer}, prediction`;
  return `${task.kind === 'copy' ? 'Copy of' : 'Compute'} layer ${task.layer}, expert ${task.expert}`;
}

function headOf(index) { return timeline.steps[index].schedules; }
function lastHead(index) { return headOf(index)[headOf(index).length - 1]; }
