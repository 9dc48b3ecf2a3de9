// What follows a control on the page of a calibration.

const data = JSON.parse(element('data').textContent);
const axis = [...numbersOf(data.axis)];
const [measured, predicted, half] = [data.measured, data.predicted, data.half].map(
  text => numbersOf(text, Float32Array));
const {places, levels} = data;

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
