'use strict';
// Figures as SVG text: the same for the screen and for files.

const LIGHT = {ink: '#1b1f23', muted: '#5a6570', line: '#dfe3e8', page: '#ffffff',
  model: '#d55e00', second: '#0072b2'};
const VIRIDIS = ['#46327e', '#365c8d', '#277f8e', '#1fa187', '#4ac16d', '#a0da39'];

function theme() {
  const style = getComputedStyle(document.documentElement);
  return Object.fromEntries(Object.keys(LIGHT).map(
    name => [name, style.getPropertyValue('--' + name).trim()]));
}

// Colour of one of several levels, from dark to light.
function levelColour(place, count) {
  const at = (count > 1 ? place / (count - 1) : 0.5) * (VIRIDIS.length - 1);
  const low = Math.min(Math.floor(at), VIRIDIS.length - 2), share = at - low;
  const parts = hex => [1, 3, 5].map(start => parseInt(hex.slice(start, start + 2), 16));
  const [one, other] = [parts(VIRIDIS[low]), parts(VIRIDIS[low + 1])];
  return `rgb(${one.map((part, i) => Math.round(part + share * (other[i] - part))).join(',')})`;
}

const xml = text => String(text).replace(/[&<>"]/g,
  letter => ({'&': '&amp;', '<': '&lt;', '>': '&gt;', '"': '&quot;'}[letter]));

function shown(value, digits = 4) {
  if (value === null || value === undefined || !isFinite(value)) return '';
  if (value === 0) return '0';
  const size = Math.abs(value);
  if (size >= 1e6 || size < 1e-4) {
    return value.toExponential(digits - 1).replace(/\.?0+e/, 'e').replace('e+', 'e')
      .replace('-', '−').replace('e-', 'e−');
  }
  return String(Number(value.toPrecision(digits))).replace('-', '−');
}

function linearTicks(low, high, most) {
  const raw = (high - low) / Math.max(1, most), power = 10 ** Math.floor(Math.log10(raw));
  const step = power * [1, 2, 5, 10].find(part => part * power >= raw * 0.999);
  const ticks = [];
  for (let k = Math.ceil(low / step - 1e-9); k * step <= high + 1e-9 * step; k++) {
    ticks.push({at: k * step, text: shown(Number((k * step).toPrecision(12)))});
  }
  return ticks;
}

// An axis of concentrations over decades has a place for zero one decade below the lowest level.
function logTicks(floor, high, most) {
  const first = Math.ceil(Math.log10(floor) + 1e-9), last = Math.floor(Math.log10(high) + 1e-9);
  const step = Math.max(1, Math.ceil((last - first + 1) / most)), ticks = [{at: floor, text: '0'}];
  for (let power = first; power <= last; power += step) {
    ticks.push({at: 10 ** power, text: shown(10 ** power, 1)});
  }
  return ticks.filter((tick, i) => i === 0 || tick.at > 3 * floor);
}

function scale(axis, values, from, to) {
  const floor = axis.floor;
  const places = values.filter(value => value !== null && isFinite(value));
  let low = axis.low ?? Math.min(...places), high = axis.high ?? Math.max(...places);
  if (floor) {
    const place = value => Math.log10(Math.max(value, floor));
    low = floor; high = Math.max(high, 10 * floor);
    const span = place(high) - place(low), pad = 0.04 * span;
    return {at: v => from + (place(v) - place(low) + pad) / (span + 2 * pad) * (to - from),
      ticks: most => logTicks(floor, high, most)};
  }
  // What differs by rounding alone is drawn as one value.
  const size = Math.max(Math.abs(low), Math.abs(high), axis.size ?? 0) || 1;
  if (high - low < 1e-9 * size) { low -= size / 2; high += size / 2; }
  const pad = axis.tight ? 0 : 0.04 * (high - low);
  low -= pad; high += pad;
  return {at: v => from + (v - low) / (high - low) * (to - from),
    ticks: most => linearTicks(low, high, most)};
}

function pathOf(xs, ys, x, y) {
  let text = '', pen = 'M';
  for (let i = 0; i < xs.length; i++) {
    if (ys[i] === null || !isFinite(ys[i])) { pen = 'M'; continue; }
    text += `${pen}${x.at(xs[i]).toFixed(1)},${y.at(ys[i]).toFixed(1)}`;
    pen = 'L';
  }
  return text;
}

const DRAW = {
  line: (layer, x, y, paint) => `<path d="${pathOf(layer.x, layer.y, x, y)}" fill="none" stroke="${
    paint(layer)}" stroke-width="${layer.width ?? 1.6}"${
    layer.dash ? ` stroke-dasharray="${layer.dash}"` : ''}/>`,
  band: (layer, x, y, paint) => {
    const back = [...layer.x.keys()].reverse();
    const under = pathOf(back.map(i => layer.x[i]), back.map(i => layer.low[i]), x, y);
    return `<path d="${pathOf(layer.x, layer.high, x, y)}${under.replace('M', 'L')}Z" fill="${
      paint(layer)}" fill-opacity="0.25"/>`;
  },
  bars: (layer, x, y, paint) => layer.x.map((at, i) => `<line x1="${x.at(at).toFixed(1)}" x2="${
    x.at(at).toFixed(1)}" y1="${y.at(layer.low[i]).toFixed(1)}" y2="${
    y.at(layer.high[i]).toFixed(1)}" stroke="${paint(layer)}" stroke-width="${
    layer.width ?? 2.5}" stroke-opacity="0.6"/>`).join(''),
  points: (layer, x, y, paint) => layer.x.map((at, i) => {
    const [cx, cy] = [x.at(at), y.at(layer.y[i])];
    const title = `<title>${xml(layer.titles?.[i] ?? '')}</title>`;
    return layer.shape === 'square'
      ? `<rect x="${(cx - 4.5).toFixed(1)}" y="${(cy - 4.5).toFixed(1)}" width="9" height="9" ` +
        `fill="none" stroke="${paint(layer)}" stroke-width="2">${title}</rect>`
      : `<circle cx="${cx.toFixed(1)}" cy="${cy.toFixed(1)}" r="4.5" fill="${
        paint(layer)}">${title}</circle>`;
  }).join(''),
};

function valuesOf(layers, part) {
  const keys = part === 'x' ? ['x'] : ['y', 'low', 'high'];
  return layers.flatMap(layer => keys.flatMap(key => [...(layer[key] ?? [])]));
}

// Names of the layers in rows above the figure, and how high these are.
function legendOf(layers, width, colours, paint) {
  let at = 0, row = 0, text = '';
  for (const layer of layers.filter(one => one.name)) {
    const needed = 38 + 6.8 * layer.name.length;
    if (at && at + needed > width) { at = 0; row++; }
    const y = 10 + 18 * row, colour = paint(layer);
    text += layer.kind === 'points'
      ? (layer.shape === 'square'
        ? `<rect x="${at + 5}" y="${y - 4}" width="8" height="8" fill="none" stroke="${colour}" stroke-width="2"/>`
        : `<circle cx="${at + 9}" cy="${y}" r="4.5" fill="${colour}"/>`)
      : `<line x1="${at}" x2="${at + 18}" y1="${y}" y2="${y}" stroke="${colour}" stroke-width="${
        layer.kind === 'line' ? 2.4 : 8}" stroke-opacity="${layer.kind === 'line' ? 1 : 0.4}"${
        layer.dash ? ` stroke-dasharray="${layer.dash}"` : ''}/>`;
    text += `<text x="${at + 23}" y="${y + 4}" fill="${colours.ink}">${xml(layer.name)}</text>`;
    at += needed;
  }
  return {text, height: text ? 18 * (row + 1) + 6 : 4};
}

function svgOf(spec, width, colours) {
  const paint = layer => colours[layer.colour] ?? layer.colour ?? colours.ink;
  const legend = legendOf(spec.layers, width - 8, colours, paint);
  const [left, right, bottom] = [62, 14, 46], height = spec.height ?? 380;
  const top = legend.height + 6;
  const x = scale(spec.x, valuesOf(spec.layers, 'x'), left, width - right);
  const y = scale(spec.y, valuesOf(spec.layers, 'y'), height - bottom, top);
  const parts = [];
  for (const tick of x.ticks(Math.floor((width - left) / 75))) {
    const at = x.at(tick.at).toFixed(1);
    parts.push(`<line x1="${at}" x2="${at}" y1="${top}" y2="${height - bottom}" stroke="${
      colours.line}"/><text class="xtick" x="${at}" y="${height - bottom + 16}" text-anchor="middle" fill="${
      colours.muted}">${xml(tick.text)}</text>`);
  }
  for (const tick of y.ticks(Math.floor((height - bottom - top) / 45))) {
    const at = y.at(tick.at).toFixed(1);
    parts.push(`<line x1="${left}" x2="${width - right}" y1="${at}" y2="${at}" stroke="${
      colours.line}"/><text class="ytick" x="${left - 6}" y="${Number(at) + 4}" text-anchor="end" fill="${
      colours.muted}">${xml(tick.text)}</text>`);
  }
  const clip = `clip-${spec.name}`;
  parts.push(`<clipPath id="${clip}"><rect x="${left - 6}" y="${top - 6}" width="${
    width - right - left + 12}" height="${height - bottom - top + 12}"/></clipPath>`);
  const marks = spec.layers.map(layer =>
    `<g class="${layer.kind}">${DRAW[layer.kind](layer, x, y, paint)}</g>`);
  parts.push(`<g clip-path="url(#${clip})">${marks.join('')}</g>`);
  const middle = (top + height - bottom) / 2;
  parts.push(`<text x="${(left + width - right) / 2}" y="${height - 8}" text-anchor="middle" fill="${
    colours.ink}">${xml(spec.x.label)}</text>`);
  parts.push(`<text transform="translate(12,${middle}) rotate(-90)" text-anchor="middle" fill="${
    colours.ink}">${xml(spec.y.label)}</text>`);
  return `<svg xmlns="http://www.w3.org/2000/svg" width="${width}" height="${height}" viewBox="0 0 ${
    width} ${height}" font-family="system-ui, sans-serif" font-size="12"><rect width="100%" height="100%" fill="${
    colours.page}"/>${legend.text}${parts.join('')}</svg>`;
}

// All that a figure draws, one column a part of a layer.
function csvOf(spec) {
  const columns = [];
  for (const layer of spec.layers.filter(one => !one.guide)) {
    const name = layer.name ?? layer.title ?? layer.kind;
    const parts = layer.kind === 'line' || layer.kind === 'points' ? ['y'] : ['low', 'high'];
    columns.push([spec.x.label, layer.x], ...parts.map(part =>
      [part === 'y' ? name : `${name}, ${part}`, layer[part]]));
  }
  const rows = Math.max(...columns.map(([, values]) => values.length));
  return csvText([columns.map(([name]) => name), ...Array.from({length: rows}, (_, row) =>
    columns.map(([, values]) => values[row] ?? ''))]);
}

// A text that begins like a formula gets an apostrophe, as OWASP advises.
function csvText(rows) {
  return rows.map(row => row.map(value => {
    if (typeof value === 'number') return String(Number(value.toPrecision(7)));
    let text = String(value);
    if (/^[=+\-@\t\r]/.test(text) && isNaN(Number(text))) text = `'${text}`;
    return /[",\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
  }).join(',')).join('\n') + '\n';
}

function save(name, parts, type) {
  const link = document.createElement('a');
  link.href = URL.createObjectURL(new Blob(parts, {type}));
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10000);
}

function savePng(name, svg, width, height) {
  const image = new Image(), canvas = document.createElement('canvas'), times = 2;
  [canvas.width, canvas.height] = [times * width, times * height];
  image.onload = () => {
    canvas.getContext('2d').drawImage(image, 0, 0, canvas.width, canvas.height);
    canvas.toBlob(blob => save(name, [blob], 'image/png'));
  };
  image.src = 'data:image/svg+xml;charset=utf-8,' + encodeURIComponent(svg);
}
