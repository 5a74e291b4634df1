// Elements without markup: whatever comes from the data goes in as text.

const svgSpace = document.getElementById('svg').namespaceURI;

function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes || {})) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith('on')) element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value === true ? '' : value);
  }
  for (const child of children.flat(Infinity)) {
    if (child !== undefined && child !== null && child !== false) element.append(child);
  }
  return element;
}

function h(tag, attributes, ...children) {
  return fill(document.createElement(tag), attributes, children);
}

function s(tag, attributes, ...children) {
  return fill(document.createElementNS(svgSpace, tag), attributes, children);
}

function section(id, title, intro, ...children) {
  return h('section', { id, class: 'card', 'aria-labelledby': `${id}-title` },
    h('h2', { id: `${id}-title` }, title), intro && h('p', { class: 'intro' }, intro), ...children);
}

// Calls draw(width) now, when the element's width changes and when the theme does.
function drawnAtWidth(element, draw) {
  let width = 0;
  const again = () => { if (width > 0) draw(width); };
  new ResizeObserver((entries) => {
    const now = Math.floor(entries[0].contentRect.width);
    // In the next frame: drawing inside the observer may change the size that it observes.
    if (now !== width) { width = now; requestAnimationFrame(again); }
  }).observe(element);
  on('theme', again);
  return again;
}

// A canvas as sharp as the screen.
function sizeCanvas(canvas, width, height) {
  const ratio = window.devicePixelRatio || 1;
  canvas.width = Math.round(width * ratio);
  canvas.height = Math.round(height * ratio);
  canvas.style.width = `${width}px`;
  canvas.style.height = `${height}px`;
  const context = canvas.getContext('2d');
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  return context;
}

const listeners = {};
function on(name, listener) { (listeners[name] = listeners[name] || []).push(listener); }
function emit(name, value) { for (const listener of listeners[name] || []) listener(value); }

// How to scroll for those who want no motion.
function calmly() { return matchMedia('(prefers-reduced-motion: reduce)').matches ? 'auto' : 'smooth'; }

function clamp(value, low, high) { return Math.min(Math.max(value, low), high); }
