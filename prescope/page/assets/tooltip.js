// One tooltip for everything, beside the pointer and inside the window.

const tooltip = h('div', { id: 'tooltip', role: 'tooltip', hidden: true });

function showTooltip(x, y, title, pairs, foot) {
  tooltip.replaceChildren(h('strong', {}, title),
    h('dl', {}, pairs.filter(([, value]) => value !== null && value !== undefined).map(([name, value]) => [h('dt', {}, name), h('dd', {}, value)])),
    foot ? h('p', {}, foot) : '');
  tooltip.hidden = false;
  const box = tooltip.getBoundingClientRect();
  const wide = document.documentElement.clientWidth;
  const left = x + 16 + box.width > wide ? x - 16 - box.width : x + 16;
  const top = y + 16 + box.height > window.innerHeight ? y - 16 - box.height : y + 16;
  tooltip.style.left = `${clamp(left, 4, Math.max(wide - box.width - 4, 4))}px`;
  tooltip.style.top = `${Math.max(top, 4)}px`;
}

function hideTooltip() { tooltip.hidden = true; }
document.addEventListener('keydown', (event) => { if (event.key === 'Escape') hideTooltip(); });
document.addEventListener('scroll', hideTooltip, { passive: true });
