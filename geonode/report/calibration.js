// What follows a control on the page of a calibration, and unknown spectra that are dropped on it.

const data = JSON.parse(element('data').textContent);
const curve = data.curve && curveOf(data.curve);
const axis = [...numbersOf(data.axis)];
const [measured, predicted, half] = [data.measured, data.predicted, data.half].map(
  text => numbersOf(text, Float32Array));
const {places, levels} = data, [lowest, highest] = [levels[0], levels[levels.length - 1]];

// Two rows of predictions and the share of the second, at a concentration between.
function between(value) {
  let at = 0;
  while (at < places.length - 2 && places[at + 1] <= value) at++;
  return [at, (value - places[at]) / (places[at + 1] - places[at])];
}

// Rows of the prediction at a concentration.
function predictedAt(value) {
  const [at, share] = between(value), n = axis.length;
  const mixed = (numbers, i) => (1 - share) * numbers[at * n + i] + share * numbers[(at + 1) * n + i];
  return axis.map((wavelength, i) => {
    const [middle, width] = [mixed(predicted, i), mixed(half, i)];
    return {wavelength, predicted: middle, low: middle - width, high: middle + width};
  });
}

live.curve = () => {
  const at = Number(element('wavelength').value), n = axis.length, [constant, slope, r2, limit] = data.lines[at];
  element('wavelength-at').textContent = `${shown(axis[at], 5)} ${data.axisUnit}`;
  element('curve-note').textContent = `Line: signal = ${shown(constant, 3)} + ${shown(slope, 3)} × ` +
    `concentration; R² ${shown(r2)}; limit of detection ${limit}.`;
  return {
    measured: levels.map((concentration, i) => ({concentration, signal: measured[i * n + at]})),
    curve: places.map((concentration, i) => {
      const [middle, width] = [predicted[i * n + at], half[i * n + at]];
      return {concentration, predicted: middle, low: middle - width, high: middle + width,
        line: constant + slope * concentration};
    }),
  };
};

const [slider, box] = [element('concentration'), element('concentration-number')];
live.predicted = () => ({spectrum: predictedAt(Number(box.value))});

element('wavelength').addEventListener('input', () => show('curve'));
slider.addEventListener('input', () => {
  const at = Number(slider.value) / Number(slider.max) * (places.length - 1);
  const low = Math.min(Math.floor(at), places.length - 2);
  box.value = Number((places[low] + (at - low) * (places[low + 1] - places[low])).toPrecision(4));
  show('predicted');
});
box.addEventListener('change', () => {
  box.value = Math.min(Math.max(Number(box.value) || 0, places[0]), places[places.length - 1]);
  const [low, share] = between(Number(box.value));
  slider.value = Math.round((low + share) / (places.length - 1) * Number(slider.max));
  show('predicted');
});

// Unknown spectra

const unknowns = [];

function rangeRemark(value) {
  if (value > highest) return `above the range: beyond the level of ${shown(highest)}, extrapolated; `;
  return value < lowest && lowest > 0
    ? `below the range: beyond the level of ${shown(lowest)}, extrapolated; ` : '';
}

function fitRemark(found) {
  if (!curve.scores) return `${found.fits ? 'within' : 'beyond'} the limits of leverage and Q residual`;
  if (found.shift) return `fits if its axis is off by ${shown(found.shift, 3)} ${data.axisUnit}: check the instrument`;
  if (!found.fits) return `fits nowhere (p = ${shown(found.p, 2)}): its numbers mean nothing`;
  const count = found.sets.length;
  return count > 1 ? `ambiguous: ${count > 2 ? 'all' : 'both'} fit; dilute and measure again` : 'fits';
}

// Estimates by geonode, if its curve is here, and by the chosen method.
function bothOf(spectrum) {
  if (!curve.scores) return {...estimateBy(data.method, spectrum), sets: [], fits: withinLimits(curve, spectrum)};
  const found = estimateOf(curve, spectrum), ends = found.sets.flat();
  const own = {value: found.mode, low: ends[0], high: ends[ends.length - 1]};
  return {...found, ...(data.method ? estimateBy(data.method, spectrum) : own)};
}

const P_VALUE = 10;  // its place in a row, before the remark

function rowOf({file, name, found}) {
  const ends = found.sets.flat(), said = found.sets.map(([low, high]) => `${shown(low)} to ${shown(high)}`);
  return [file, name, data.methodName, found.value, found.low, found.high, found.mode, ends[0],
    ends[ends.length - 1], said.join('; '), found.p, rangeRemark(found.value) + fitRemark(found)];
}

function showUnknowns() {
  const body = element('table-dropped').tBodies[0];
  body.replaceChildren(...unknowns.map(unknown => {
    const row = document.createElement('tr');
    rowOf(unknown).forEach((value, i) => {
      const cell = document.createElement(i ? 'td' : 'th');
      cell.textContent = typeof value === 'number' ? shown(value, i === P_VALUE ? 2 : 4) : value;
      if (i === P_VALUE + 1) cell.className = unknown.found.fits ? 'text' : 'text bad';
      row.append(cell);
    });
    return row;
  }));
  element('unknown-shown').replaceChildren(...unknowns.map((one, i) => new Option(`${one.file}: ${one.name}`, i)));
  element('dropped').hidden = !unknowns.length;
  if (unknowns.length) show('unknown');
}

live.unknown = () => {
  const {values, found} = unknowns[Number(element('unknown-shown').value)], nearest = found.mode ?? found.value;
  const inside = nearest >= places[0] && nearest <= places[places.length - 1];
  const rows = inside ? predictedAt(nearest) : axis.map(wavelength => ({wavelength}));
  return {spectrum: rows.map((row, i) => ({...row, measured: values[data.drawn[i]]}))};
};

// Estimate files; those that are refused take nothing from the others, or from those before.
async function take(files) {
  const told = element('drop-told'), refused = [];
  let count = 0;
  for (const file of files) {
    try {
      const spectra = await spectraOf(file, curve);
      unknowns.push(...spectra.map(one => ({...one, found: bothOf(one.values)})));
      count += spectra.length;
    } catch (error) {
      refused.push(`${file.name}: ${error.message}`);
    }
  }
  told.textContent = `${count} estimated.` + (refused.length ? ` Not estimated: ${refused.join('; ')}. ` +
    'The command reads more: geonode estimate FILE --calibration calibration.safetensors.' : '');
  told.className = refused.length ? 'note bad' : 'note';
  showUnknowns();
}

if (curve) {
  const drop = element('drop');
  element('file').addEventListener('change', event => take([...event.target.files]));
  drop.addEventListener('dragover', event => { event.preventDefault(); drop.classList.add('over'); });
  drop.addEventListener('dragleave', () => drop.classList.remove('over'));
  drop.addEventListener('drop', event => {
    event.preventDefault();
    drop.classList.remove('over');
    take([...event.dataTransfer.files]);
  });
  element('unknown-shown').addEventListener('change', () => show('unknown'));
  element('save-dropped').addEventListener('click', () => {
    const header = [...element('table-dropped').tHead.rows[0].cells].map(cell => cell.textContent);
    save(`${stem}_unknowns.csv`, [csvText([header, ...unknowns.map(rowOf)])], 'text/csv');
  });
}
