// A matrix as a grid of coloured cells, with a cursor for mouse and keys.

class Cells {
  // pairsOf(row, column) -> [title, pairs]; colourOf(row, column) -> a fill; onPick(row, column); rowName(row).
  constructor({ id, label, pairsOf, colourOf, onPick, rowName = String }) {
    Object.assign(this, { pairsOf, colourOf, onPick, rowName });
    this.rows = 0;
    this.columns = 0;
    this.cursor = null;
    this.canvas = h('canvas', { id, tabindex: 0, role: 'application', 'aria-label': `${label}. Arrow keys move from cell to cell.` });
    this.spoken = h('p', { class: 'spoken', 'aria-live': 'polite' });
    this.frame = h('div', { class: 'figure' }, this.canvas, this.spoken);
    this.draw = drawnAtWidth(this.frame, (width) => this.paint(width));
    this.canvas.addEventListener('pointermove', (event) => this.hover(event));
    this.canvas.addEventListener('pointerleave', hideTooltip);
    this.canvas.addEventListener('click', (event) => {
      const cell = this.cellAt(event);
      if (cell) { this.cursor = cell; this.draw(); if (this.onPick) this.onPick(...cell); }
    });
    this.canvas.addEventListener('keydown', (event) => this.key(event));
    this.canvas.addEventListener('blur', hideTooltip);
  }

  resize(rows, columns) {
    this.rows = rows;
    this.columns = columns;
    if (this.cursor && (this.cursor[0] >= rows || this.cursor[1] >= columns)) this.cursor = null;
    this.draw();
  }

  paint(width) {
    if (!this.rows) return;
    this.left = 34;
    this.top = 18;
    const room = width - this.left - 2;
    this.wide = clamp(room / this.columns, 0.5, 34);
    this.tall = clamp(Math.min(this.wide, 460 / this.rows), 6, 22);
    const height = this.top + this.tall * this.rows + 2;
    const context = sizeCanvas(this.canvas, width, height);
    const gap = this.wide >= 5 ? 1 : 0;
    for (let row = 0; row < this.rows; row += 1) {
      for (let column = 0; column < this.columns; column += 1) {
        context.fillStyle = this.colourOf(row, column);
        context.fillRect(this.left + column * this.wide, this.top + row * this.tall, this.wide - gap, this.tall - (this.tall >= 5 ? 1 : 0));
      }
    }
    this.paintNames(context);
    if (this.cursor) {
      context.strokeStyle = colours.ink;
      context.lineWidth = 2;
      context.strokeRect(this.left + this.cursor[1] * this.wide - 1, this.top + this.cursor[0] * this.tall - 1, Math.max(this.wide, 3) + 1, this.tall + 1);
    }
  }

  paintNames(context) {
    context.font = '11px system-ui, sans-serif';
    context.fillStyle = colours.muted;
    context.textBaseline = 'middle';
    const step = (size, room) => [1, 2, 4, 5, 8, 10, 16, 20, 32, 50, 64, 100, 128, 200, 256, 500, 1000, 5000].find((each) => each * size >= room) || 10000;
    const down = step(this.tall, 14);
    for (let row = 0; row < this.rows; row += down) {
      const text = this.rowName(row);
      context.fillText(text, this.left - 6 - context.measureText(text).width, this.top + (row + 0.5) * this.tall);
    }
    const across = step(this.wide, 28);
    for (let column = 0; column < this.columns; column += across) {
      const text = String(column);
      context.fillText(text, Math.max(this.left + (column + 0.5) * this.wide - context.measureText(text).width / 2, this.left), 8);
    }
  }

  cellAt(event) {
    const box = this.canvas.getBoundingClientRect();
    const column = Math.floor((event.clientX - box.left - this.left) / this.wide);
    const row = Math.floor((event.clientY - box.top - this.top) / this.tall);
    return row >= 0 && row < this.rows && column >= 0 && column < this.columns ? [row, column] : null;
  }

  hover(event) {
    const cell = this.cellAt(event);
    if (!cell) { hideTooltip(); return; }
    showTooltip(event.clientX, event.clientY, ...this.pairsOf(...cell));
  }

  key(event) {
    const moves = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] };
    if (event.key === 'Enter' && this.cursor && this.onPick) { this.onPick(...this.cursor); return; }
    const by = moves[event.key];
    if (!by || event.ctrlKey || event.altKey || event.metaKey) return;
    event.preventDefault();
    const [row, column] = this.cursor || [0, 0];
    this.cursor = this.cursor ? [clamp(row + by[0], 0, this.rows - 1), clamp(column + by[1], 0, this.columns - 1)] : [0, 0];
    this.draw();
    const [title, pairs] = this.pairsOf(...this.cursor);
    this.spoken.textContent = `${title}: ${pairs.filter(([, value]) => value).map(([name, value]) => `${name} ${value}`).join(', ')}`;
    const box = this.canvas.getBoundingClientRect();
    showTooltip(box.left + this.left + (this.cursor[1] + 1) * this.wide, box.top + this.top + (this.cursor[0] + 1) * this.tall, title, pairs);
  }
}

function heatScale(most, unit) {
  const steps = [0, 0.25, 0.5, 0.75, 1].map((share) => { const block = h('i', { class: 'block' }); block.style.background = heatColour(share); return block; });
  return h('div', { class: 'legend' }, h('span', { class: 'key' }, '0 ', steps, ` ${formatNumber(most)} ${unit}`));
}
