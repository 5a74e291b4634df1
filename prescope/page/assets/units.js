// Quantities as text, in the words of the terminal.

function formatNs(ns) {
  const size = Math.abs(ns);
  if (size >= 1e9) return `${(ns / 1e9).toFixed(3)} s`;
  if (size >= 1e6) return `${(ns / 1e6).toFixed(3)} ms`;
  if (size >= 1e3) return `${(ns / 1e3).toFixed(2)} us`;
  return `${Math.round(ns)} ns`;
}

// A time on an axis: as many digits as tell one tick from the next.
function formatTick(ns, step) {
  const [unit, factor] = step >= 1e8 ? ['s', 1e9] : step >= 1e5 ? ['ms', 1e6] : step >= 100 ? ['us', 1e3] : ['ns', 1];
  const digits = Math.max(0, Math.ceil(-Math.log10(step / factor) - 1e-9));
  return `${(ns / factor).toFixed(Math.min(digits, 6))} ${unit}`;
}

function formatShare(share) {
  if (share === null || Number.isNaN(share)) return '-';
  const size = Math.abs(share);
  return `${size > 0 && size < 0.00995 ? +(100 * share).toPrecision(2) : (100 * share).toFixed(size > 0 && size < 0.0995 ? 1 : 0)} %`;
}

function formatNumber(value) {
  if (value === null || value === undefined) return '-';
  if (typeof value !== 'number') return String(value);
  if (Number.isInteger(value)) return value.toLocaleString('en');
  const size = Math.abs(value);
  return size >= 1000 ? Math.round(value).toLocaleString('en') : size >= 0.01 ? String(+value.toPrecision(4)) : value.toExponential(2);
}

function formatBytes(bytes) {
  let value = bytes;
  for (const unit of ['B', 'KiB', 'MiB', 'GiB']) {
    if (Math.abs(value) < 1024) return `${unit === 'B' ? value : +value.toPrecision(3)} ${unit}`;
    value /= 1024;
  }
  return `${+value.toPrecision(3)} TiB`;
}

// A value under a column's or fact's name, whose suffix is its unit.
function formatAs(name, value) {
  if (value === null || value === undefined) return '-';
  if (typeof value !== 'number') return String(value);
  if (name.endsWith('_ns')) return formatNs(value);
  if (name.endsWith('_bytes')) return formatBytes(value);
  if (name.endsWith('_share')) return formatShare(value);
  return formatNumber(value);
}

function withoutUnit(name) { return name.replace(/_(ns|bytes|share)$/, '').replaceAll('_', ' '); }

function plural(count, word) { return `${formatNumber(count)} ${word}${count === 1 ? '' : 's'}`; }

// Round places between two values, about `count` of them.
function ticks(low, high, count) {
  const raw = Math.max(high - low, 1e-12) / Math.max(count, 1);
  const power = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 5, 10].map((factor) => factor * power).find((size) => size >= raw - 1e-12 * power);
  const places = [];
  for (let at = Math.ceil(low / step - 1e-9); at * step <= high + 1e-9 * step; at += 1) places.push(at * step);
  return { step, places };
}
