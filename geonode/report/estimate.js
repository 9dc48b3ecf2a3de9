// The posterior of the concentration of a spectrum: geonode/estimation/posterior.py, line by line.

// Lower Cholesky factor of every node, and the logarithm of its determinant.
function curveOf(packed) {
  if (!packed.scores) {  // the components of another method
    const arrays = ['axis', 'centre', 'rotation', 'loadings'];
    const numbers = Object.fromEntries(arrays.map(name => [name, numbersOf(packed[name])]));
    return {...packed, ...numbers, w: packed.wavelengths};
  }
  const [nodes, r, w] = [packed.nodes, packed.directions, packed.wavelengths];
  const left = numbersOf(packed.left), right = numbersOf(packed.right), rank = packed.rank;
  const pairs = r * (r + 1) / 2, factors = new Float64Array(nodes * pairs);
  const logarithm = new Float64Array(nodes), at = (i, j) => i * (i + 1) / 2 + j;
  for (let node = 0; node < nodes; node++) {
    const f = factors.subarray(node * pairs, (node + 1) * pairs);
    for (let k = 0; k < rank; k++) {
      const share = left[node * rank + k];
      for (let p = 0; p < pairs; p++) f[p] += share * right[k * pairs + p];
    }
    for (let j = 0; j < r; j++) {
      for (let i = j; i < r; i++) {
        let sum = f[at(i, j)];
        for (let k = 0; k < j; k++) sum -= f[at(i, k)] * f[at(j, k)];
        f[at(i, j)] = i === j ? Math.sqrt(sum) : sum / f[at(j, j)];
      }
      logarithm[node] += 2 * Math.log(f[at(j, j)]);
    }
  }
  const arrays = ['axis', 'concentrations', 'edges', 'pedestal', 'basis', 'scores', 'log_prior'];
  const numbers = Object.fromEntries(arrays.map(name => [name, numbersOf(packed[name])]));
  return {...packed, ...numbers, r, w, factors, logarithm, pairs};
}

const [EQUAL, TINY] = [1e-9, 2.2250738585072014e-308];

// Scores of a spectrum less the pedestal, and the square of what it has in other directions.
function projected(curve, spectrum) {
  const {r, w, basis, pedestal} = curve, scores = new Float64Array(r);
  const rest = Float64Array.from(spectrum, (value, i) => value - pedestal[i]);
  for (let k = 0; k < r; k++) {
    for (let i = 0; i < w; i++) scores[k] += rest[i] * basis[k * w + i];
  }
  for (let k = 0; k < r; k++) {
    for (let i = 0; i < w; i++) rest[i] -= scores[k] * basis[k * w + i];
  }
  return {scores, other: rest.reduce((sum, value) => sum + value * value, 0)};
}

function distancesTo(curve, scores) {
  const {nodes, r, factors, pairs} = curve, found = new Float64Array(nodes);
  const white = new Float64Array(r);
  for (let node = 0; node < nodes; node++) {
    const start = node * pairs;
    let sum = 0;
    for (let i = 0, p = start; i < r; i++) {
      let value = scores[i] - curve.scores[node * r + i];
      for (let j = 0; j < i; j++, p++) value -= factors[p] * white[j];
      white[i] = value / factors[p++];
      sum += white[i] * white[i];
    }
    found[node] = sum;
  }
  return found;
}

function posteriorOf(curve, distance) {
  const [share, power, size] = curve.law;
  const found = distance.map((q, i) => curve.log_prior[i]
    - 0.5 * (share * curve.logarithm[i] + power * Math.log1p(q / size)));
  const most = found.reduce((one, other) => Math.max(one, other), -Infinity);
  const weights = found.map(value => Math.exp(value - most));
  const total = weights.reduce((sum, value) => sum + value, 0);
  return weights.map(value => value / total);
}

// Densities of which the more likely ones have the mass of their side, and intervals above these.
function setOf(curve, probability, density) {
  const {nodes, concentrations, edges, masses} = curve, [first, last] = curve.inside;
  const order = [...density.keys()].sort((i, j) => density[j] - density[i] || i - j);
  const side = i => first <= i && i < last ? 0 : 1, least = masses.map(() => density[order.at(-1)]);
  let likelier = 0;
  const open = masses.map(mass => mass > 0);
  order.forEach((place, rank) => {
    const next = likelier + probability[place];
    masses.forEach((mass, k) => {
      if (!open[k] || next < mass || rank + 1 === nodes) return;
      open[k] = false;
      const share = (mass - likelier) / (next - likelier), below = density[order[rank + 1]];
      least[k] = density[place] - share * (density[place] - below);
    });
    likelier = next;
  });
  const bound = i => least[side(i)], taken = i => density[i] >= (1 - EQUAL) * bound(i);
  const end = (i, other) => {
    if (other < 0 || other === nodes || side(i) !== side(other)) return edges[Math.max(i, other)];
    const share = Math.min(1, Math.max(0, (density[i] - bound(i)) / (density[i] - density[other])));
    return concentrations[i] + share * (concentrations[other] - concentrations[i]);
  };
  const intervals = [];
  for (let i = 0; i < nodes; i++) {
    if (!taken(i)) continue;
    const start = i;
    while (i + 1 < nodes && taken(i + 1)) i++;
    intervals.push([end(start, start - 1), end(i, i + 1)]);
  }
  return intervals;
}

// The top of the density between the levels, unless these have too little of the probability.
function modeOf(curve, probability, density) {
  const {nodes, concentrations} = curve, [first, last] = curve.inside;
  const between = i => first <= i && i < last;
  const held = probability.reduce((sum, value, i) => between(i) ? sum + value : sum, 0);
  const side = held >= curve.evidence, counted = density.map((v, i) => between(i) === side ? v : -1);
  const top = counted.findIndex((counts => value => value >= counts)(
    (1 - EQUAL) * counted.reduce((one, other) => Math.max(one, other))));
  const here = concentrations[top];
  if (top === 0 || top === nodes - 1 || between(top - 1) !== side || between(top + 1) !== side) return here;
  const [low, mid, high] = [-1, 0, 1].map(step => Math.log(Math.max(density[top + step], TINY)));
  const shift = Math.min(0.5, Math.max(-0.5, (high - low) / (2 * Math.max(2 * mid - low - high, TINY))));
  return here + shift * (shift > 0 ? concentrations[top + 1] - here : here - concentrations[top - 1]);
}

// Laws of chance

function logGamma(x) {  // C. Lanczos, J. SIAM Numer. Anal. B 1 (1964) 86
  const parts = [676.5203681218851, -1259.1392167224028, 771.32342877765313, -176.61502916214059,
    12.507343278686905, -0.13857109526572012, 9.9843695780195716e-6, 1.5056327351493116e-7];
  if (x < 0.5) return Math.log(Math.PI / Math.sin(Math.PI * x)) - logGamma(1 - x);
  const sum = parts.reduce((all, part, i) => all + part / (x + i), 0.99999999999980993);
  const t = x + 6.5;
  return 0.5 * Math.log(2 * Math.PI) + (x - 0.5) * Math.log(t) - t + Math.log(sum);
}

// Regularised incomplete beta function by its continued fraction: DLMF 8.17.22, Lentz's method.
function incompleteBeta(x, a, b) {
  if (x <= 0) return 0;
  if (x >= 1) return 1;
  if (x > (a + 1) / (a + b + 2)) return 1 - incompleteBeta(1 - x, b, a);
  const front = Math.exp(logGamma(a + b) - logGamma(a) - logGamma(b)
    + a * Math.log(x) + b * Math.log1p(-x)) / a;
  const tiny = 1e-300, away = value => Math.abs(value) < tiny ? tiny : value;
  let c = 1, d = 1 / away(1 - (a + b) * x / (a + 1)), found = d;
  for (let m = 1; m < 500; m++) {
    const even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m));
    d = 1 / away(1 + even * d); c = away(1 + even / c); found *= d * c;
    const odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1));
    d = 1 / away(1 + odd * d); c = away(1 + odd / c);
    found *= d * c;
    if (Math.abs(d * c - 1) < 1e-15) break;
  }
  return front * found;
}

const tailOfF = (value, one, two) => incompleteBeta(two / (two + one * value), two / 2, one / 2);

// Of the distance to the curve and of what is in other directions, by Fisher's method.
function pValue(curve, distance, other) {
  const tested = distance.subarray(curve.tested[0], curve.tested[1]);
  const nearest = tested.reduce((one, other) => Math.min(one, other), Infinity);
  const near = tailOfF(nearest / curve.r, 2, curve.training / 2 + 1);
  const [square, freedom, spectra] = curve.novelty;
  const fresh = tailOfF(other / Math.max(square, curve.rounding), freedom, freedom * spectra);
  const sum = -2 * (Math.log(Math.max(near, TINY)) + Math.log(Math.max(fresh, TINY)));
  return Math.exp(-sum / 2) * (1 + sum / 2);  // chi-squared, four degrees of freedom
}

// A shift of the axis: geonode/estimation/axis.py

function pchip(x, y) {  // F. N. Fritsch and J. Butland, SIAM J. Sci. Stat. Comput. 5 (1984) 300
  const n = x.length, h = [], slope = [], d = new Float64Array(n);
  for (let i = 0; i + 1 < n; i++) {
    h.push(x[i + 1] - x[i]);
    slope.push((y[i + 1] - y[i]) / h[i]);
  }
  for (let i = 1; i + 1 < n; i++) {
    if (slope[i - 1] * slope[i] > 0) {
      const [one, two] = [2 * h[i] + h[i - 1], h[i] + 2 * h[i - 1]];
      d[i] = (one + two) / (one / slope[i - 1] + two / slope[i]);
    }
  }
  const end = (h0, h1, s0, s1) => {
    const value = ((2 * h0 + h1) * s0 - h0 * s1) / (h0 + h1);
    if (Math.sign(value) !== Math.sign(s0)) return 0;
    return Math.sign(s0) !== Math.sign(s1) && Math.abs(value) > 3 * Math.abs(s0) ? 3 * s0 : value;
  };
  d[0] = end(h[0], h[1], slope[0], slope[1]);
  d[n - 1] = end(h[n - 2], h[n - 3], slope[n - 2], slope[n - 3]);
  let at = 0;
  return value => {
    while (at > 0 && value < x[at]) at--;
    while (at < n - 2 && value >= x[at + 1]) at++;
    const t = value - x[at], b = (3 * slope[at] - 2 * d[at] - d[at + 1]) / h[at];
    const c = (d[at] + d[at + 1] - 2 * slope[at]) / (h[at] * h[at]);
    return y[at] + t * (d[at] + t * (b + t * c));
  };
}

const [LARGEST_SHIFT, SHIFTS, BETTER, EVERY] = [0.05, 20, 4, 8];

function shiftOf(curve, spectrum) {
  const {axis, w, r, nodes} = curve, range = axis[w - 1] - axis[0];
  const largest = LARGEST_SHIFT * range, inside = [];
  for (let i = 0; i < w; i++) {
    if (axis[i] >= axis[0] + largest && axis[i] <= axis[w - 1] - largest) inside.push(i);
  }
  curve.rows ??= Array.from({length: Math.ceil(nodes / EVERY)}, (_, row) => inside.map(i => {
    let sum = curve.pedestal[i];
    for (let k = 0; k < r; k++) sum += curve.scores[row * EVERY * r + k] * curve.basis[k * w + i];
    return sum;
  }));
  const at = pchip(axis, spectrum), away = [], tried = [];
  for (let step = -SHIFTS; step <= SHIFTS; step++) {
    const shift = largest * step / SHIFTS, row = inside.map(i => at(axis[i] + shift));
    tried.push(shift);
    away.push(Math.min(...curve.rows.map(node =>
      node.reduce((sum, value, i) => sum + (value - row[i]) ** 2, 0))));
  }
  const best = away.indexOf(Math.min(...away));
  const steps = [...axis.slice(1)].map((value, i) => value - axis[i]).sort((a, b) => a - b);
  const half = steps.length >> 1;
  const median = steps.length % 2 ? steps[half] : (steps[half - 1] + steps[half]) / 2;
  const smallest = Math.max(median / 2, tried[SHIFTS + 1]);
  const gained = away[SHIFTS] / Math.max(away[best], TINY);
  return gained > BETTER && Math.abs(tried[best]) >= smallest ? tried[best] : 0;
}

// The chosen method, where it is not geonode: geonode/calibration/methods.py and intervals.py.

function estimateBy(method, spectrum) {
  const found = method.polynomial ? readBack(method, spectrum) : alongComponents(method, spectrum);
  const {law} = method, {value, leverage} = found;
  const [constant, share] = value < law.low || value > law.high ? law.beyond : law.inside;
  const half = law.t * Math.sqrt((constant + share * value * value) * (1 + leverage));
  return {value, low: value - half, high: value + half};
}

function alongComponents(method, spectrum) {
  method.numbers ??= numbersOf(method.vectors);
  let value = method.mean, leverage = 1 / method.count;
  method.offsets.forEach((offset, k) => {
    const score = spectrum.reduce((sum, one, i) =>
      sum + one * method.numbers[k * spectrum.length + i], -offset);
    value += score * method.slopes[k];
    leverage += score * score * method.weights[k];
  });
  return {value, leverage};
}

function readBack(method, spectrum) {
  const {constant, slope, curvature, covariance, lowest, power} = method.polynomial;
  let above = spectrum[method.polynomial.place] - constant;
  if (curvature) {
    const turn = -slope * slope / (4 * curvature);
    above = curvature > 0 ? Math.max(above, turn) : Math.min(above, turn);
  }
  const root = Math.sqrt(Math.max(slope * slope + 4 * curvature * above, 0));
  const steep = slope + (slope < 0 ? -root : root), z = steep ? 2 * above / steep : 0;
  const value = method.polynomial.centre + method.polynomial.span * z;
  let leverage = 0;
  covariance.forEach((row, i) => row.forEach((one, j) => { leverage += one * z ** (i + j); }));
  const weight = power ? Math.max(value / lowest, 1) ** -power : 1;
  return {value, leverage: leverage * weight};
}

// Leverage and Q residual within their limits: geonode/calibration/diagnostics.py.
function withinLimits(components, spectrum) {
  const {w, centre, rotation, loadings, limits} = components;
  const centred = spectrum.map((value, i) => value - centre[i]), rest = Float64Array.from(centred);
  let leverage = 1 / components.samples;
  components.sizes.forEach((size, k) => {
    const score = centred.reduce((sum, value, i) => sum + value * rotation[k * w + i], 0);
    leverage += score * score / size;
    for (let i = 0; i < w; i++) rest[i] -= score * loadings[k * w + i];
  });
  const found = [leverage, rest.reduce((sum, value) => sum + value * value, 0)];
  return found.every((value, i) => limits[i] === null || value <= limits[i]);
}

const MISFIT = 0.01;

function estimateOf(curve, spectrum) {
  const {scores, other} = projected(curve, spectrum), distance = distancesTo(curve, scores);
  const probability = posteriorOf(curve, distance), density = Float64Array.from(probability);
  density[0] *= 2;
  density[curve.nodes - 1] *= 2;
  const p = pValue(curve, distance, other), shift = shiftOf(curve, spectrum);
  return {mode: modeOf(curve, probability, density), sets: setOf(curve, probability, density), p, shift,
    fits: p >= MISFIT && shift === 0};
}
