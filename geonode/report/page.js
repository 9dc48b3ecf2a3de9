'use strict';
// Figures of a page: drawn, and laid out again where their width changes.

const views = new Map();
const stem = document.title.split(':')[0].replace(/\.[^.]*$/, '');  // of the names of files

async function unpacked(text) {
  const packed = Uint8Array.from(atob(text), letter => letter.charCodeAt(0));
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream('gzip'));
  return new Response(stream).text();
}

// Lay out again: the rows of a legend follow from the width, the margin from the labels drawn, and
// both from each other.
async function fit(view) {
  for (let i = 0; i < 2; i++) await view.resize().runAsync();
}

// Draw a figure. Expressions are interpreted (`ast`), because the policy of the page forbids to
// compile them.
async function draw(figure) {
  const spec = JSON.parse(await unpacked(figure.querySelector('script').textContent));
  const {view} = await vegaEmbed(figure.querySelector('.plot'), spec, {
    mode: 'vega-lite', renderer: 'svg', ast: true, bind: figure.querySelector('.controls'),
    actions: {export: true, source: false, compiled: false, editor: false}, defaultStyle: false,
    downloadFileName: `${stem}_${figure.dataset.figure}`});
  views.set(figure, view);
  figure.addEventListener('change', () => fit(view));
  await fit(view);
}

async function start() {
  const script = document.createElement('script');
  script.textContent = await unpacked(document.getElementById('library').textContent);
  document.head.append(script);
  await Promise.all([...document.querySelectorAll('figure')].map(draw));
  document.getElementById('undrawn').remove();
}

const folded = document.querySelectorAll('section > details');
for (const details of folded) {  // what was folded has no width
  details.addEventListener('toggle', () => {
    details.querySelectorAll('figure').forEach(figure => views.has(figure) && fit(views.get(figure)));
  });
}
addEventListener('beforeprint', () => folded.forEach(details => { details.open = true; }));
let settled;
addEventListener('resize', () => {  // after Vega has taken the new width
  clearTimeout(settled);
  settled = setTimeout(() => views.forEach(fit), 200);
});
start();
