// Response surfaces of a page of mixtures, at a wavelength and with amounts of the other substances.

const data = JSON.parse(element('data').textContent);
const axis = numbersOf(data.axis);
const [mean, loadings] = [data.mean, data.loadings].map(text => numbersOf(text, Float32Array));
const scores = numbersOf(data.scores, Int16Array);
const [wavelength, others] = [element('wavelength'), element('others')];

// Cells over the amounts of a pair of substances.
function cellsOf(place, one, other) {
  const {cells, rank, steps} = data, at = Number(wavelength.value), step = Number(others?.value ?? 0);
  const first = (place * steps + step) * cells * cells, rows = [];
  const edge = (substance, cell) => data.low[substance] + cell / cells * data.ranges[substance];
  for (let cell = 0; cell < cells * cells; cell++) {
    const [i, j] = [cell % cells, Math.floor(cell / cells)];
    let signal = mean[at];
    for (let k = 0; k < rank; k++) signal += loadings[at * rank + k] * scores[(first + cell) * rank + k];
    rows.push({x: edge(one, i), x2: edge(one, i + 1), y: edge(other, j), y2: edge(other, j + 1), signal});
  }
  return rows;
}

for (const [place, [one, other]] of data.pairs.entries()) {
  live[`surface_${one}_${other}`] = () => ({cells: cellsOf(place, one, other)});
}

function tellPlace() {
  element('wavelength-at').textContent = `${shown(axis[Number(wavelength.value)], 5)} ${data.axisUnit}`;
  if (others) element('others-at').textContent = `${100 * Number(others.value) / (data.steps - 1)} % of their ranges`;
}

for (const input of [wavelength, others]) {
  input?.addEventListener('input', () => { tellPlace(); data.pairs.forEach(pair => show(`surface_${pair.join('_')}`)); });
}
tellPlace();
