// Where everything of the timeline lies: one group of rows for each lane, in it one row for each schedule.

const ROW = 26;
const RIBBON = 17;

// Tasks of one lane that overlap lie below each other.
function withTracks(tasks) {
  const until = [];
  for (const task of tasks) {
    let track = until.findIndex((end) => end <= task.start);
    if (track < 0) { track = until.length; until.push(0); }
    until[track] = task.end;
    task.track = track;
  }
  return Math.max(until.length, 1);
}

function timelineLayout(data, shown) {
  const schedules = data.schedules.filter((schedule) => shown.has(schedule.name));
  const rows = [];
  let y = 24;
  for (const schedule of schedules) {
    rows.push({ ribbon: true, schedule, y, height: RIBBON, name: 'layers', sub: schedule.name });
    y += RIBBON + 2;
  }
  y += 8;
  timeline.lanes.forEach((lane, at) => {
    const present = schedules.some((schedule) => schedule.tasks.some((task) => task.lane === at));
    if (!present) return;
    schedules.forEach((schedule, place) => {
      const tasks = schedule.tasks.filter((task) => task.lane === at);
      const tracks = withTracks(tasks);
      const height = Math.max(ROW, Math.min(tracks, 6) * 9);
      rows.push({ ribbon: false, schedule, lane, tasks, tracks, y, height, name: place === 0 ? lane : '', sub: schedule.name });
      y += height + 3;
    });
    y += 9;
  });
  return { rows, height: y };
}

// The stretch of time that all schedules together fill.
function fullWindow(data) {
  let [low, high] = [0, 1];
  for (const schedule of data.schedules) {
    high = Math.max(high, schedule.makespan);
    for (const task of schedule.tasks) {
      low = Math.min(low, task.start);
      high = Math.max(high, task.end);
    }
  }
  return [low, high];
}

function taskAt(layout, view, x, y) {
  const row = layout.rows.find((each) => y >= each.y && y < each.y + each.height);
  if (!row) return null;
  const time = view.timeAt(x);
  if (row.ribbon) {
    const layer = row.schedule.layerEnds.findIndex((end) => end > time);
    return layer < 0 || time < 0 ? null : { row, layer };
  }
  const track = Math.min(Math.floor(((y - row.y) * row.tracks) / row.height), row.tracks - 1);
  const near = 3 * view.perPixel();
  let best = null;
  let least = Infinity;
  for (const task of row.tasks) {
    if (task.track !== track) continue;
    const away = Math.max(task.start - time, time - task.end, 0);
    if (away < least) { least = away; best = task; }
  }
  return best && least <= near ? { row, task: best } : null;
}
