'use strict';
const PRINTED_WIDTH = 660;
const touch = matchMedia('(pointer: coarse)').matches;
const dark = matchMedia('(prefers-color-scheme: dark)');
const root = document.documentElement;

function palette() {
  const style = getComputedStyle(root);
  const colour = name => style.getPropertyValue('--' + name).trim();
  return {'@ink': colour('ink'), '@muted': colour('muted'), '@line': colour('line')};
}

// Names from a table are never colours, so they stay what they are.
function coloured(text) {
  const colours = palette();
  return JSON.parse(text, (key, value) =>
    key.toLowerCase().endsWith('color') && value in colours ? colours[value] : value);
}

function axis(given) {
  return {automargin: true, gridcolor: '@line', zerolinecolor: '@line', linecolor: '@line',
    tickcolor: '@line', exponentformat: 'power', ...given};
}

function layoutOf(given, width) {
  const font = {family: 'system-ui, sans-serif', size: 12, color: '@ink'};
  return {
    ...given, xaxis: axis(given.xaxis), yaxis: axis(given.yaxis), font,
    paper_bgcolor: 'rgba(0,0,0,0)', plot_bgcolor: 'rgba(0,0,0,0)',
    margin: {l: 8, r: 12, t: 12, b: 8}, dragmode: touch ? false : 'zoom', hovermode: 'closest',
    legend: {orientation: 'h', x: 0, y: 1.02, yanchor: 'bottom', font},
    ...(width ? {width} : {autosize: true}),
  };
}

function draw(figure, width) {
  const plot = figure.querySelector('.plot');
  const text = figure.querySelector('script').textContent;
  const {traces, layout, choices} = JSON.parse(text);
  const selects = [...figure.querySelectorAll('select')];
  const choice = choices[selects.map(select => select.value).join('|')];
  if (choice) {
    for (const part of ['x', 'y']) {
      if (choice[part]) traces.forEach((trace, i) => { trace[part] = choice[part][i]; });
    }
    Object.assign(layout.yaxis, choice.yaxis);
    figure.querySelector('.note').textContent = choice.note;
  }
  const themed = coloured(JSON.stringify({traces, layout: layoutOf(layout, width)}));
  return Plotly.react(plot, themed.traces, themed.layout,
    {responsive: true, displayModeBar: false});
}

const figures = [...document.querySelectorAll('figure')];
const drawAll = width => figures.map(figure => draw(figure, width));
for (const figure of figures) {
  figure.addEventListener('change', () => draw(figure));
  for (const button of figure.querySelectorAll('button')) {
    button.addEventListener('click', () => {
      const select = button.parentElement.querySelector('select');
      const count = select.options.length;
      select.selectedIndex = (select.selectedIndex + Number(button.dataset.step) + count) % count;
      draw(figure);
    });
  }
}

async function unpack(element) {
  const packed = Uint8Array.from(atob(element.textContent), letter => letter.charCodeAt(0));
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream('gzip'));
  return new Response(stream).text();
}

async function start() {
  const library = document.createElement('script');
  library.textContent = await unpack(document.getElementById('plotly'));
  document.head.append(library);
  await Promise.all(drawAll());
  document.getElementById('undrawn').remove();
}

start();
dark.addEventListener('change', () => drawAll());
addEventListener('beforeprint', () => { root.classList.add('printing'); drawAll(PRINTED_WIDTH); });
addEventListener('afterprint', () => { root.classList.remove('printing'); drawAll(); });
