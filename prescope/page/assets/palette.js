// What a colour means. Colours are Okabe and Ito's, told apart by the colour-blind; a letter and, for what went
// wrong, a pattern say the same.

const STYLES = {
  dense: { letter: 'd', about: 'Attention, router and shared work of the layer; when it ends the router has chosen: the gate.' },
  resident: { letter: 'r', about: 'The weights stay on the device: no copy.' },
  prefetched: { letter: 'p', about: 'The copy began before the gate of its layer and had landed when the gate came: a useful prefetch.' },
  late: { letter: 'l', about: 'The copy began before the gate of its layer and was still under way at the gate: a late prefetch.', hatch: 'single' },
  'on-demand': { letter: 'o', about: 'The copy began at the gate of its layer or after it: nobody had asked for it before.' },
  cpu: { letter: 'c', about: 'Computed in place on the host: no copy.' },
  prediction: { letter: 'f', about: 'The work of the predictor itself.' },
  unused: { letter: 'x', about: 'Copied and not used in this step: wasted, unless a later step uses it.', hatch: 'cross' },
};

let colours = {};

function readColours() {
  const style = getComputedStyle(document.documentElement);
  const get = (name) => style.getPropertyValue(`--${name}`).trim();
  colours = { origins: {} };
  for (const name of ['ink', 'muted', 'line', 'surface', 'surface-2', 'accent', 'idle', 'heat-resident', 'heat-0', 'heat-1', 'heat-2', 'band', 'critical', 'on-fill']) {
    colours[name] = get(name);
  }
  for (const name of Object.keys(STYLES)) colours.origins[name] = get(`origin-${name}`);
  patterns.clear();
}

// A colour with stripes over it, for canvases.
const patterns = new Map();
function fillOf(style) {
  const colour = colours.origins[style];
  const { hatch } = STYLES[style];
  if (!hatch) return colour;
  if (!patterns.has(style)) {
    const tile = document.createElement('canvas');
    tile.width = 8;
    tile.height = 8;
    const context = tile.getContext('2d');
    context.fillStyle = colour;
    context.fillRect(0, 0, 8, 8);
    context.strokeStyle = colours.surface;
    context.globalAlpha = 0.55;
    context.lineWidth = 1.6;
    context.beginPath();
    for (const shift of [-8, 0, 8]) {
      context.moveTo(shift, 8);
      context.lineTo(shift + 8, 0);
      if (hatch === 'cross') { context.moveTo(shift, 0); context.lineTo(shift + 8, 8); }
    }
    context.stroke();
    patterns.set(style, context.createPattern(tile, 'repeat'));
  }
  return patterns.get(style);
}

// A little square of the legend.
function swatch(style) {
  return h('span', { class: `swatch origin-${style}`, 'aria-hidden': 'true' }, STYLES[style].letter);
}

function mixed(low, high, share) {
  const parse = (colour) => colour.match(/[0-9a-f]{2}/gi).map((part) => parseInt(part, 16));
  const [from, to] = [parse(low), parse(high)];
  return `rgb(${from.map((value, at) => Math.round(value + (to[at] - value) * share)).join(' ')})`;
}

// From nothing over a middle tone to the most.
function heatColour(share) {
  if (share <= 0) return colours['heat-0'];
  return share < 0.5 ? mixed(colours['heat-0'], colours['heat-1'], 0.2 + 1.6 * share) : mixed(colours['heat-1'], colours['heat-2'], 2 * share - 1);
}
