// Unknown spectra from a dropped file: text with one column per spectrum, by the rules of
// geonode/spectra/formats. What these rules do not decide is refused; the command reads more.

const [LARGEST_FILE, LONGEST_CELL, LARGEST_NUMBER, SMALLEST_NUMBER] = [2 ** 25, 64, 1e30, 1e-30];
const NUMBER = /^[-+]?(?:\d+(?:\.\d*|,\d+)?|[.,]\d+)(?:e[-+]?\d{1,4})?$/i;  // linear: no digit twice
const GROUPS = /^[-+]?[1-9]\d{0,2}(?:[.,]\d{3})+$/;  // of thousands, or decimals
const DELIMITERS = {',': 'comma', ';': 'semicolon', '\t': 'tab', '|': 'bar', ' ': 'blanks'};

const isNumber = cell => cell.length <= LONGEST_CELL && NUMBER.test(cell);

function decoded(bytes) {
  if (bytes[0] === 0x50 && bytes[1] === 0x4b) throw new Error('found a workbook, expected text');
  const big = bytes[0] === 0xfe && bytes[1] === 0xff, wide = bytes[0] === 0xff && bytes[1] === 0xfe;
  const read = (encoding, fatal) => new TextDecoder(encoding, {fatal}).decode(bytes);
  if (big || wide) return read(big ? 'utf-16be' : 'utf-16le', true);
  if (bytes.includes(0)) throw new Error('found binary data, expected text');
  try {
    return read('utf-8', true);
  } catch {
    return read('windows-1252', false);
  }
}

// Cells of the lines and the longest run of rows of numbers, as one delimiter parts them.
function partedBy(mark, lines) {
  const parts = ({text}) => mark === ' ' ? text.trim().split(/\s+/) : text.split(mark);
  const rows = lines.map(line => ({row: line.row, cells: parts(line)
    .map(cell => cell.trim().replace(/^"(.*)"$/, '$1').trim())}));
  const plain = mark === ',' ? cell => isNumber(cell) && !cell.includes(',') : isNumber;
  let best = {start: 0, end: 0};
  for (let start = 0, i = 0; i <= rows.length; i++) {
    const cells = rows[i]?.cells ?? [], width = rows[start]?.cells.length;
    const runs = cells.length > 1 && cells.every(plain);
    if (i > start && !(runs && cells.length === width)) {
      if (i - start > best.end - best.start) best = {start, end: i};
      start = i;
    }
    if (!runs) start = i + 1;
  }
  return {mark, rows, ...best};
}

// Commas or points that may all be decimal marks, or all part thousands, are refused.
function refuseGroups(cells) {
  if (cells.some(cell => cell.includes(',')) && cells.some(cell => cell.includes('.'))) {
    throw new Error('found numbers with commas and others with points, expected one decimal mark');
  }
  for (const [mark, word] of [[',', 'comma'], ['.', 'point']]) {
    const found = cells.filter(cell => cell.includes(mark));
    if (found.length && found.every(cell => GROUPS.test(cell))) {
      throw new Error(`found ${found[0]} and no number that tells whether its ${word} is a decimal ` +
        'mark or parts thousands; save with decimal points and without thousands');
    }
  }
}

function tableOf(text) {
  const lines = text.replace(/^\uFEFF/, '').split(/\r\n|\r|\n/).map((line, i) => ({text: line, row: i + 1}))
    .filter(line => /[^\s,;|"]/.test(line.text) && !/^\s*#(?!\s*[,;\t|])/.test(line.text));
  const tried = Object.keys(DELIMITERS).map(mark => partedBy(mark, lines));
  const most = Math.max(...tried.map(one => one.end - one.start));
  const said = one => one.rows.slice(one.start, one.end).map(row => row.cells.join('\n')).join('\n\n');
  const [found, ...others] = tried.filter(one => one.end - one.start === most);
  if (most < 2) throw new Error('found no table, expected a column of wavelengths and one per spectrum');
  const other = others.find(one => said(one) !== said(found));
  if (other) {
    throw new Error(`found two ways to read the cells, delimiter ${DELIMITERS[found.mark]} and ` +
      `${DELIMITERS[other.mark]}; save with semicolons or tabs`);
  }
  const {rows, start, end} = found, body = rows.slice(start, end), width = body[0].cells.length;
  const isGood = ({cells}) => cells.length === width && cells.every(isNumber);
  const cut = [...rows.slice(0, start), ...rows.slice(end)].filter(
    ({cells}) => cells.length > 1 && isNumber(cells[0]));
  if (cut.length) {
    const {row, cells} = cut.find(one => !isGood(one)) ?? cut[0];
    throw new Error(`row ${row}: found "${cells.slice(1).join(' ').slice(0, 40)}", expected a number in ` +
      `each of ${width} columns`);
  }
  if (found.mark !== ',') refuseGroups(body.flatMap(row => row.cells));
  const numbers = body.map(row => row.cells.map(cell => Number(cell.replace(',', '.'))));
  let first = start;
  while (first > 0 && rows[first - 1].cells.length === width) first--;
  const headers = rows.slice(first, start).map(row => row.cells.slice(1));
  if (width === 2) return {names: headers.length === 1 ? headers[0] : [], numbers};  // else a preamble
  const named = headers.filter(cells => new Set(cells).size > 1);  // the others are units
  if (named.length > 1) throw new Error('found two rows of names, expected one');
  if (!headers.length) throw new Error('found no header, expected the names of the spectra');
  return {names: named[0] ?? headers[0], numbers};
}

// Spectra of a file on the axis of a curve: their names and values.
async function spectraOf(file, curve) {
  if (file.size > LARGEST_FILE) throw new Error(`found ${file.size} bytes, expected ${LARGEST_FILE} or fewer`);
  const {names, numbers} = tableOf(decoded(new Uint8Array(await file.arrayBuffer())));
  const large = numbers.flat().find(value => !(Math.abs(value) <= LARGEST_NUMBER));
  if (large !== undefined) throw new Error(`found ${large}, expected numbers of at most ${LARGEST_NUMBER}`);
  const rows = numbers.sort((one, other) => one[0] - other[0]);
  const {axis} = curve, near = 1e-6 * (axis[curve.w - 1] - axis[0]) / (curve.w - 1);
  const twice = rows.find((row, i) => i && row[0] - rows[i - 1][0] <= near);
  if (twice) throw new Error(`found ${shown(twice[0], 6)} twice, expected every wavelength once`);
  let place = 0;
  const kept = Array.from(axis, value => {
    while (place < rows.length && rows[place][0] < value - near) place++;
    if (place >= rows.length || rows[place][0] > value + near) {
      throw new Error(`found nothing at ${shown(value, 6)}, expected every wavelength of the calibration`);
    }
    return rows[place];
  });
  return rows[0].slice(1).map((_, i) => {
    const values = Float64Array.from(kept, row => row[i + 1]);
    const most = values.reduce((one, other) => Math.max(one, Math.abs(other)), 0);
    if (most > 0 && most < SMALLEST_NUMBER) throw new Error(`found no number above ${most}; change the unit`);
    return {file: file.name, name: names[i] || file.name, values};
  });
}
