'use strict';
// Figures of a page: drawing, saving, and replacing their data.

const views = {};
const element = id => document.getElementById(id);
const stem = document.title.split(':')[0].replace(/\.[^.]*$/, '');  // of the names of files

async function unpacked(text) {
  const packed = Uint8Array.from(atob(text), letter => letter.charCodeAt(0));
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream('gzip'));
  return new Response(stream).text();
}

// Numbers of a figure or a table, in base64.
function numbersOf(text, Kind = Float64Array) {
  return new Kind(Uint8Array.from(atob(text), letter => letter.charCodeAt(0)).buffer);
}

// A number with some significant digits.
function shown(value, digits = 4) {
  if (value === null || !isFinite(value)) return '';
  const size = Math.abs(value);
  const text = value && (size >= 1e6 || size < 1e-4)
    ? value.toExponential(digits - 1).replace(/\.?0+e/, 'e').replace('e+', 'e')
    : String(Number(value.toPrecision(digits)));
  return text.replaceAll('-', '−');
}

// Tables of the figures that follow a control, as functions by name.
const live = {};

// Lay out again: the rows of a legend follow from the width, the margin from the labels drawn, and
// both from each other.
async function fit(view) {
  for (let i = 0; i < 2; i++) await view.resize().runAsync();
}

// Draw a figure, or give it the tables of now. Expressions are interpreted (`ast`), because the
// policy of the page forbids to compile them.
async function show(name) {
  const tables = live[name]?.() ?? {};
  if (views[name]) {
    for (const [key, rows] of Object.entries(tables)) views[name].data(key, rows);
    await views[name].runAsync();
    return fit(views[name]);
  }
  const figure = document.querySelector(`figure[data-figure=${name}]`);
  const spec = JSON.parse(await unpacked(figure.querySelector('script').textContent));
  const {view} = await vegaEmbed(figure.querySelector('.plot'), {...spec, datasets: {...spec.datasets, ...tables}},
    {mode: 'vega-lite', renderer: 'svg', ast: true, actions: false, bind: figure.querySelector('.controls')});
  views[name] = view;
  figure.addEventListener('change', () => fit(view));
  await fit(view);
  for (const button of figure.querySelectorAll('[data-save]')) {
    button.addEventListener('click', () => saveFigure(name, Object.keys(spec.datasets), button.dataset.save));
  }
}

async function saveFigure(name, tables, kind) {
  const view = views[name], file = `${stem}_${name}.${kind}`;
  if (kind === 'csv') save(file, [csvOf(view, tables)], 'text/csv');
  else if (kind === 'svg') save(file, [await view.toSVG()], 'image/svg+xml');
  else {
    const canvas = await view.toCanvas(Math.max(2, 1800 / view.container().clientWidth));
    canvas.toBlob(blob => save(file, [blob], 'image/png'));
  }
}

function save(name, parts, type) {
  const link = document.createElement('a');
  link.href = URL.createObjectURL(new Blob(parts, {type}));
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10000);
}

// Tables of a figure, one below the other.
function csvOf(view, names) {
  return names.map(name => view.data(name)).filter(rows => rows.length).map(rows => {
    const columns = Object.keys(rows[0]);
    return csvText([columns, ...rows.map(row => columns.map(column => row[column]))]);
  }).join('\n');
}

// A text that begins like a formula gets an apostrophe, as OWASP advises.
function csvText(rows) {
  return rows.map(row => row.map(value => {
    if (typeof value === 'number') return String(Number(value.toPrecision(12)));
    let text = String(value ?? '');
    if (/^[=+\-@\t\r]/.test(text) && isNaN(Number(text))) text = `'${text}`;
    return /[",\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
  }).join(',')).join('\n') + '\n';
}

async function start() {
  const script = document.createElement('script');
  script.textContent = await unpacked(element('library').textContent);
  document.head.append(script);
  const figures = [...document.querySelectorAll('figure')];
  await Promise.all(figures.map(figure => show(figure.dataset.figure)));
  element('undrawn').remove();
}

let settled;
addEventListener('resize', () => {  // after Vega has taken the new width
  clearTimeout(settled);
  settled = setTimeout(() => Object.values(views).forEach(fit), 200);
});
start();
