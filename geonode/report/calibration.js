const data = JSON.parse(document.getElementById('data').textContent);
const curve = data.curve && curveOf(data.curve);
const axis = [...unpacked(data.axis)];
const stem = data.stem;
const concentration = {label: data.concentrationLabel, floor: data.floor};
const signal = {label: data.signalLabel};
const wavelength = {label: data.axisLabel, tight: true};
const rowOf = (numbers, row) => [...numbers.subarray(row * axis.length, (row + 1) * axis.length)];
const measured = unpacked32(data.measured);
const predicted = unpacked32(data.predicted), half = unpacked32(data.half);
const places = data.places, levels = data.levels;
const element = id => document.getElementById(id);

// Two rows of predictions and the share of the second, at a concentration between.
function between(value) {
  let at = 0;
  while (at < places.length - 2 && places[at + 1] <= value) at++;
  return [at, (value - places[at]) / (places[at + 1] - places[at])];
}

function predictedAt(value) {
  const [at, share] = between(value);
  const mixed = numbers => axis.map((_, i) => (1 - share) * numbers[at * axis.length + i]
    + share * numbers[(at + 1) * axis.length + i]);
  const [y, width] = [mixed(predicted), mixed(half)];
  return {y, low: y.map((one, i) => one - width[i]), high: y.map((one, i) => one + width[i])};
}

function trueFigure() {
  const found = data.methods.geonode, chosen = data.methods[data.chosen];
  const ends = [Math.min(...levels), Math.max(...levels)];
  const sets = data.sets.flatMap((of, i) => of.map(([low, high]) => [levels[i], low, high]));
  const layers = [
    {kind: 'line', x: ends, y: ends, colour: 'muted', dash: '5 4', width: 1, name: 'true', guide: true},
    {kind: 'bars', x: sets.map(one => one[0]), low: sets.map(one => one[1]),
      high: sets.map(one => one[2]), colour: 'model', name: 'geonode, 90% set'},
    {kind: 'points', x: levels, y: found, colour: 'model', name: 'geonode', titles: levels.map(
      (level, i) => `${shown(level)} estimated as ${shown(found[i])} ${data.unit}`)},
  ];
  if (chosen && data.chosen !== 'geonode') {
    layers.push({kind: 'points', shape: 'square', x: levels, y: chosen, colour: 'second',
      name: data.names[data.chosen], titles: levels.map(
        (level, i) => `${shown(level)} estimated as ${shown(chosen[i])} ${data.unit}`)},
    {kind: 'bars', x: levels, low: data.intervals.map(one => one[0][0]), width: 1.2,
      high: data.intervals.map(one => one[0][1]), colour: 'second',
      name: `${data.names[data.chosen]}, 90% interval`});
  }
  return {name: 'true', height: 400, layers,
    x: {...concentration, label: `true ${data.concentrationLabel}`},
    y: {...concentration, label: `estimated ${data.concentrationLabel}`}};
}

function spectraFigure() {
  const few = levels.length <= 12;
  return {name: 'spectra', x: wavelength, y: signal, height: 420, layers: levels.map((level, i) => (
    {kind: 'line', x: axis, y: rowOf(measured, i), colour: levelColour(i, levels.length),
      title: `${shown(level)} ${data.unit}`, name: few ? `${shown(level)} ${data.unit}` : ''}))};
}

function curveFigure() {
  const at = Number(element('wavelength').value);
  const value = (numbers, row) => numbers[row * axis.length + at];
  const line = data.lines[at], mean = places.map((_, i) => value(predicted, i));
  element('wavelength-at').textContent = `${shown(axis[at], 5)} ${data.axisUnit}`;
  element('curve-note').textContent = line.note;
  return {name: 'curve', x: concentration, y: {...signal, size: data.size}, layers: [
    {kind: 'band', x: places, low: mean.map((one, i) => one - value(half, i)),
      high: mean.map((one, i) => one + value(half, i)), colour: 'model', name: 'geonode, 90% interval'},
    {kind: 'line', x: places, y: mean, colour: 'model', name: 'geonode'},
    {kind: 'line', x: places, y: places.map(place => line.intercept + line.slope * place),
      colour: 'second', dash: '6 4', name: 'straight line'},
    {kind: 'points', x: levels, y: levels.map((_, i) => value(measured, i)), name: 'measured'},
  ]};
}

function residualFigure() {
  const key = element('method').value, found = data.methods[key];
  const errors = found.map((one, i) => one - levels[i]);
  return {name: 'residuals', x: concentration, height: 300,
    y: {label: `estimated − true ${data.concentrationLabel}`, size: levels[levels.length - 1]},
    layers: [
      {kind: 'line', x: [levels[0], levels[levels.length - 1]], y: [0, 0], colour: 'muted', width: 1,
        guide: true},
      {kind: 'bars', x: levels, low: errors.map(one => Math.min(one, 0)),
        high: errors.map(one => Math.max(one, 0)), colour: 'second', guide: true},
      {kind: 'points', x: levels, y: errors, colour: 'second', title: data.names[key],
        titles: errors.map((one, i) => `${shown(levels[i])}: ${shown(one)} ${data.unit}`)},
    ]};
}

function predictedFigure() {
  const value = Number(element('concentration-number').value), found = predictedAt(value);
  const said = `${shown(value)} ${data.unit}`;
  return {name: 'predicted', x: wavelength, y: signal, layers: [
    {kind: 'band', x: axis, low: found.low, high: found.high, colour: 'model',
      name: `90% interval`},
    {kind: 'line', x: axis, y: found.y, colour: 'model', name: `predicted for ${said}`},
  ]};
}

function metricFigure() {
  const {places: x, mean, deviation} = data.metric;
  return {name: 'metric', x: concentration, y: {label: data.metricLabel, low: 0}, height: 320, layers: [
    {kind: 'band', x, low: mean.map((one, i) => Math.max(0, one - deviation[i])),
      high: mean.map((one, i) => one + deviation[i]), colour: 'second', name: 'one standard deviation'},
    {kind: 'line', x, y: mean, colour: 'second', name: 'posterior mean of √g'},
  ]};
}

function unknownFigure() {
  const one = unknowns[Number(element('unknown-shown').value)], inside = one.found.mode >= places[0]
    && one.found.mode <= places[places.length - 1];
  const near = inside ? predictedAt(one.found.mode) : null;
  const kept = data.drawn.map(i => one.values[i]);
  return {name: 'unknown', x: wavelength, y: signal, layers: [
    ...(near ? [{kind: 'band', x: axis, low: near.low, high: near.high, colour: 'model',
      name: `90% interval at ${shown(one.found.mode)} ${data.unit}`}] : []),
    {kind: 'line', x: axis, y: kept, name: one.name},
  ]};
}

const FIGURES = {true: trueFigure, spectra: spectraFigure, curve: curveFigure,
  residuals: residualFigure, predicted: predictedFigure, metric: metricFigure,
  unknown: unknownFigure};

function draw(name) {
  const holder = element(`plot-${name}`);
  if (!holder || holder.closest('[hidden]')) return;
  const width = Math.floor(holder.clientWidth), spec = FIGURES[name]();
  if (width) holder.innerHTML = svgOf(spec, width, theme());
}

const drawAll = () => Object.keys(FIGURES).forEach(draw);

for (const figure of document.querySelectorAll('figure[data-figure]')) {
  const name = figure.dataset.figure, file = `${stem}_${name}`, [width, most] = [900, 500];
  figure.querySelector('.save').addEventListener('click', event => {
    const kind = event.target.dataset.save, spec = FIGURES[name]();
    const svg = svgOf({...spec, height: most}, width, LIGHT);
    if (kind === 'csv') save(`${file}.csv`, [csvOf(spec)], 'text/csv');
    if (kind === 'svg') save(`${file}.svg`, [svg], 'image/svg+xml');
    if (kind === 'png') savePng(`${file}.png`, svg, width, most);
  });
}
for (const button of document.querySelectorAll('[data-table]')) {
  button.addEventListener('click', () => {
    const table = button.closest('section, div.table').querySelector(`#table-${button.dataset.table}`);
    const rows = [...table.rows].map(row => [...row.cells].map(
      cell => cell.dataset.value === undefined ? cell.textContent : Number(cell.dataset.value)));
    save(`${stem}_${button.dataset.table}.csv`, [csvText(rows)], 'text/csv');
  });
}
element('workbook')?.addEventListener('click', event => {
  if (!data.workbook) return;
  event.preventDefault();
  const bytes = Uint8Array.from(atob(data.workbook), letter => letter.charCodeAt(0));
  save(`${stem}.xlsx`, [bytes], 'application/vnd.openxmlformats-officedocument.spreadsheetml.sheet');
});

// Controls

element('wavelength').addEventListener('input', () => draw('curve'));
element('method').addEventListener('change', () => draw('residuals'));
const [slider, box] = [element('concentration'), element('concentration-number')];
slider.addEventListener('input', () => {
  const at = Number(slider.value) / Number(slider.max) * (places.length - 1);
  const low = Math.min(Math.floor(at), places.length - 2);
  const value = places[low] + (at - low) * (places[low + 1] - places[low]);
  box.value = Number(value.toPrecision(4));
  draw('predicted');
});
box.addEventListener('change', () => {
  const value = Math.min(Math.max(Number(box.value) || 0, places[0]), places[places.length - 1]);
  box.value = value;
  const [low, share] = between(value);
  slider.value = Math.round((low + share) / (places.length - 1) * Number(slider.max));
  draw('predicted');
});

// Unknowns that are dropped

let unknowns = [];

function remarkOf(found) {
  const beyond = rangeRemark(found.value), said = fitRemark(found);
  return beyond ? `${beyond}; ${said}` : said;
}

function rangeRemark(value) {
  const [low, high] = [levels[0], levels[levels.length - 1]];
  if (value > high) return `above the range: beyond the level of ${shown(high)}, extrapolated`;
  return value < low && low > 0
    ? `below the range: beyond the level of ${shown(low)}, extrapolated` : '';
}

function fitRemark(found) {
  if (found.shift) return `fits if its axis is off by ${shown(found.shift, 3)} ${data.axisUnit}: check the instrument`;
  if (!found.fits) return `fits nowhere (p = ${shown(found.p, 2)}): its numbers mean nothing`;
  return found.sets.length > 1 ? 'ambiguous: the spectrum does not tell which part' : 'fits';
}

function tellUnknowns() {
  const body = element('table-dropped').tBodies[0];
  body.replaceChildren(...unknowns.map(one => {
    const row = document.createElement('tr'), {mode, sets, value, low, high} = one.found;
    const said = sets.map(ends => `${shown(ends[0])} to ${shown(ends[1])}`).join('; ');
    const numbers = [value, low, high, mode, sets[0][0], sets[sets.length - 1][1]];
    const cells = [one.name, data.names[data.chosen], ...numbers.map(number => shown(number)), said,
      shown(one.found.p, 2), remarkOf(one.found)];
    cells.forEach((text, i) => {
      const cell = document.createElement(i ? 'td' : 'th');
      cell.textContent = text;
      if (1 < i && i < 8) cell.dataset.value = numbers[i - 2];
      if (i === 9) cell.dataset.value = one.found.p;
      if (i === 10) cell.className = one.found.fits ? 'text' : 'text bad';
      row.append(cell);
    });
    return row;
  }));
  const select = element('unknown-shown');
  select.replaceChildren(...unknowns.map((one, i) => new Option(one.name, i)));
  element('dropped').hidden = !unknowns.length;
  if (unknowns.length) draw('unknown');
}

// Estimates by geonode and by the chosen method.
function bothOf(spectrum) {
  const found = estimateOf(curve, spectrum), ends = found.sets.flat();
  const own = {value: found.mode, low: ends[0], high: ends[ends.length - 1]};
  return {...found, ...(data.method ? estimateBy(data.method, spectrum) : own)};
}

async function take(files) {
  const told = element('drop-told');
  unknowns = [];
  try {
    for (const file of files) {
      const spectra = spectraOf(await file.text(), curve);
      unknowns.push(...spectra.map(one => ({...one, found: bothOf(one.values)})));
    }
    told.textContent = `${unknowns.length} estimated.`;
    told.className = 'note';
  } catch (error) {
    unknowns = [];
    told.textContent = `Not estimated: ${error.message}.`;
    told.className = 'note bad';
  }
  tellUnknowns();
}

const drop = element('drop');
if (curve) {
  element('file').addEventListener('change', event => take([...event.target.files]));
  drop.addEventListener('dragover', event => { event.preventDefault(); drop.classList.add('over'); });
  drop.addEventListener('dragleave', () => drop.classList.remove('over'));
  drop.addEventListener('drop', event => {
    event.preventDefault();
    drop.classList.remove('over');
    take([...event.dataTransfer.files]);
  });
  element('unknown-shown').addEventListener('change', () => draw('unknown'));
}

drawAll();
let waiting;
addEventListener('resize', () => { clearTimeout(waiting); waiting = setTimeout(drawAll, 100); });
matchMedia('(prefers-color-scheme: dark)').addEventListener('change', drawAll);
element('undrawn').remove();
