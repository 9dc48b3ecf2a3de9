'use strict';
// Figures of a page: drawing, saving, and what follows its sliders.

const views = {};
const element = id => document.getElementById(id);
const data = JSON.parse(element('page-data').textContent);
const stem = document.title.split(':')[0].replace(/\.[^.]*$/, '');  // of the names of files

async function unpacked(text) {
  const packed = Uint8Array.from(atob(text), letter => letter.charCodeAt(0));
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream('gzip'));
  return new Response(stream).text();
}

// Numbers in base64.
function numbersOf(text) {
  return new Float32Array(Uint8Array.from(atob(text), letter => letter.charCodeAt(0)).buffer);
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

// Tables of the figures that follow a slider, as functions by name.
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
    const lines = [columns, ...rows.map(row => columns.map(column => row[column]))];
    return lines.map(line => line.map(csvCell).join(',') + '\n').join('');
  }).join('\n');
}

// A text that begins like a formula gets an apostrophe, as OWASP advises.
function csvCell(value) {
  if (typeof value === 'number') return String(Number(value.toPrecision(12)));
  let text = String(value ?? '');
  if (/^[=+\-@\t\r]/.test(text) && isNaN(Number(text))) text = `'${text}`;
  return /[",\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}

// The curve at a wavelength and the spectrum at a concentration, of one substance.
function followOneSubstance({axis, axisUnit, places, levels, lines, ...packed}) {
  const [slider, concentration, box] = ['wavelength', 'concentration', 'concentration-number'].map(element);
  const [measured, predicted, half] = [packed.measured, packed.predicted, packed.half].map(numbersOf);
  const n = axis.length;
  // A number between two rows of some columns, at a place that need not be whole.
  function mixed(numbers, place, columns = 1, column = 0) {
    const at = Math.min(Math.floor(place), places.length - 2), share = place - at;
    return (1 - share) * numbers[at * columns + column] + share * numbers[(at + 1) * columns + column];
  }
  function banded(place, column) {
    const [middle, width] = [predicted, half].map(numbers => mixed(numbers, place, n, column));
    return {predicted: middle, low: middle - width, high: middle + width};
  }
  function placeOf(value) {
    let at = 0;
    while (at < places.length - 2 && places[at + 1] <= value) at++;
    return at + (value - places[at]) / (places[at + 1] - places[at]);
  }
  live.curve = () => {
    const at = Number(slider.value), [constant, slope, r2, limit] = lines[at];
    element('wavelength-at').textContent = `${shown(axis[at], 5)} ${axisUnit}`;
    element('curve-note').textContent = `Line: signal = ${shown(constant, 3)} + ${shown(slope, 3)} × ` +
      `concentration; R² ${shown(r2)}; limit of detection ${limit}.`;
    return {
      measured: levels.map((level, i) => ({concentration: level, signal: measured[i * n + at]})),
      curve: places.map((value, i) => ({concentration: value, line: constant + slope * value, ...banded(i, at)})),
    };
  };
  live.predicted = () => {
    const place = placeOf(Number(box.value));
    return {spectrum: axis.map((wavelength, i) => ({wavelength, ...banded(place, i)}))};
  };
  concentration.addEventListener('input', () => {
    const place = concentration.value / concentration.max * (places.length - 1);
    box.value = Number(mixed(places, place).toPrecision(4));
  });
  box.addEventListener('change', () => {
    box.value = Math.min(Math.max(Number(box.value) || 0, places[0]), places[places.length - 1]);
    concentration.value = Math.round(placeOf(Number(box.value)) / (places.length - 1) * concentration.max);
    show('predicted');
  });
}

// Response surfaces of several substances at a wavelength.
function followSeveralSubstances({axis, axisUnit, pairs, cells, low, ranges, ...packed}) {
  const signal = numbersOf(packed.signal);
  const edge = (substance, cell) => low[substance] + cell / cells * ranges[substance];
  for (const [place, [one, other]] of pairs.entries()) live[`surface_${one}_${other}`] = () => {
    const at = Number(element('wavelength').value), rows = [];
    element('wavelength-at').textContent = `${shown(axis[at], 5)} ${axisUnit}`;
    for (let j = 0; j < cells; j++) for (let i = 0; i < cells; i++) rows.push({
      x: edge(one, i), x2: edge(one, i + 1), y: edge(other, j), y2: edge(other, j + 1),
      signal: signal[((place * cells + j) * cells + i) * axis.length + at],
    });
    return {cells: rows};
  };
}

async function start() {
  const script = document.createElement('script');
  script.textContent = await unpacked(element('library').textContent);
  document.head.append(script);
  const figures = [...document.querySelectorAll('figure')];
  await Promise.all(figures.map(figure => show(figure.dataset.figure)));
  element('undrawn').remove();
}

if (data.places) followOneSubstance(data);
if (data.pairs) followSeveralSubstances(data);
for (const slider of document.querySelectorAll('input[data-of]')) {
  slider.addEventListener('input', () => {
    Object.keys(live).filter(name => name.startsWith(slider.dataset.of)).forEach(show);
  });
}
for (const details of document.querySelectorAll('details')) {  // what was folded has no width
  details.addEventListener('toggle', () => {
    for (const figure of details.querySelectorAll('figure')) {
      if (views[figure.dataset.figure]) fit(views[figure.dataset.figure]);
    }
  });
}
addEventListener('beforeprint', () => {
  document.querySelectorAll('details').forEach(details => { details.open = true; });
});
let settled;
addEventListener('resize', () => {  // after Vega has taken the new width
  clearTimeout(settled);
  settled = setTimeout(() => Object.values(views).forEach(fit), 200);
});
start();
