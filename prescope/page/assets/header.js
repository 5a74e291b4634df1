// Heading, facts, theme, help.

const THEMES = ['auto', 'light', 'dark'];

function setTheme(name) {
  if (name === 'auto') delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = name;
  readColours();
  emit('theme');
}

function themeButton() {
  let at = 0;
  const button = h('button', { id: 'theme', type: 'button' });
  const label = () => {
    button.textContent = `Theme: ${THEMES[at]}`;
    button.setAttribute('aria-label', `Theme: ${THEMES[at]}. Press for ${THEMES[(at + 1) % 3]}.`);
  };
  button.addEventListener('click', () => { at = (at + 1) % 3; setTheme(THEMES[at]); label(); });
  label();
  matchMedia('(prefers-color-scheme: dark)').addEventListener('change', () => setTheme(THEMES[at]));
  return button;
}

const SHORTCUTS = [
  ['+  -', 'zoom the timeline in and out'],
  ['Left  Right', 'move the timeline; with Shift a whole window'],
  ['Up  Down', 'another lane'],
  ['N  P', 'next and previous task in the lane, with its details'],
  ['C', 'next task of the critical path'],
  ['Enter', 'zoom to the selected task'],
  ['0', 'the whole step'],
  ['Esc', 'select nothing'],
  [',  .', 'previous and next step (anywhere on the page)'],
  ['?', 'this help (anywhere on the page)'],
];

function helpDialog() {
  const dialog = h('dialog', { id: 'help', 'aria-labelledby': 'help-title' },
    h('h2', { id: 'help-title' }, 'Keys and gestures'),
    h('p', {}, 'Keys for the timeline work while it has the focus: click it, or reach it with Tab.'),
    h('table', {}, h('tbody', {}, SHORTCUTS.map(([keys, about]) => h('tr', {},
      h('th', { scope: 'row' }, keys.split('  ').map((key) => h('kbd', {}, key))), h('td', {}, about))))),
    h('p', {}, 'Mouse: drag to move, Ctrl and wheel to zoom (the wheel alone once the timeline has the focus), double click on a layer to zoom to it. Touch: drag to move, pinch to zoom.'),
    h('button', { type: 'button', autofocus: true, onclick: () => dialog.close() }, 'Close'));
  return dialog;
}

function pageHeader(dialog) {
  return h('header', { class: 'top' },
    h('div', { class: 'top-row' },
      h('p', { class: 'brand' }, 'prescope', h('span', { class: 'badge' }, doc.kind)),
      h('div', { class: 'tools' }, themeButton(),
        timeline ? h('button', { type: 'button', id: 'help-button', onclick: () => dialog.showModal() }, 'Keys (?)') : '')),
    h('h1', {}, doc.title),
    doc.facts.length ? h('dl', { class: 'facts' }, doc.facts.map(([name, value]) => h('div', {}, h('dt', {}, name), h('dd', {}, value)))) : '',
    doc.notes.map((note) => h('p', { class: 'note' }, note)));
}

function provenanceSection() {
  if (!doc.provenance.length) return '';
  return section('provenance', 'Where this comes from', null,
    h('dl', { class: 'pairs' }, doc.provenance.map(([name, value]) => h('div', {}, h('dt', {}, name), h('dd', {}, value)))));
}
