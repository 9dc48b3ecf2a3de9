"""Style and script of the page."""

STYLE = """
:root {
  --page: #ffffff; --ink: #1b1f23; --muted: #5a6570; --line: #dfe3e8; --shade: #f4f6f8;
  --good: #00694b; --bad: #a63d00;
}
@media (prefers-color-scheme: dark) {
  :root:not(.printing) {
    --page: #14171a; --ink: #e6e9ec; --muted: #9aa5b0; --line: #333a41; --shade: #1e2328;
    --good: #4cc79f; --bad: #ff9a5c;
  }
}
* { box-sizing: border-box; }
body {
  margin: 0; background: var(--page); color: var(--ink);
  font: 16px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, sans-serif;
}
main { max-width: 1000px; margin: 0 auto; padding: 16px 24px 64px; }
h1 { font-size: 1.6rem; line-height: 1.25; margin: 0.4em 0; overflow-wrap: anywhere; }
h2 { font-size: 1.25rem; line-height: 1.3; margin: 2.2em 0 0.4em; }
p { margin: 0.5em 0; max-width: 75ch; overflow-wrap: anywhere; }
nav { display: flex; flex-wrap: wrap; gap: 4px 16px; margin: 1.2em 0; font-size: 0.9rem; }
a { color: inherit; }
#undrawn { color: var(--muted); font-size: 0.9rem; }
.verdict { padding: 0; list-style: none; max-width: 75ch; }
.verdict li {
  margin: 6px 0; padding: 4px 0 4px 12px; border-left: 4px solid var(--line);
  overflow-wrap: anywhere;
}
.verdict .good { border-color: var(--good); }
.verdict .good strong { color: var(--good); }
.verdict .bad { border-color: var(--bad); }
.verdict .bad strong { color: var(--bad); }
figure { margin: 1em 0; }
.plot { width: 100%; }
figcaption { color: var(--muted); font-size: 0.9rem; }
.controls { display: flex; flex-wrap: wrap; gap: 8px 20px; }
.controls label { display: flex; align-items: center; gap: 4px; color: var(--muted); }
select, button {
  font: inherit; color: var(--ink); background: var(--shade); border: 1px solid var(--line);
  border-radius: 6px; min-height: 36px; padding: 2px 8px; max-width: 60vw;
}
button { min-width: 36px; }
.note { color: var(--muted); font-size: 0.9rem; min-height: 1.5em; }
.scroll { overflow-x: auto; margin: 1em 0; }
table { border-collapse: collapse; font-size: 0.9rem; font-variant-numeric: tabular-nums; }
caption { text-align: left; color: var(--muted); padding-bottom: 4px; }
th, td { padding: 4px 12px; border-bottom: 1px solid var(--line); text-align: right; }
th:first-child { text-align: left; padding-left: 4px; font-weight: 500; }
thead th { font-weight: 600; vertical-align: bottom; }
td { white-space: nowrap; }
tbody th { min-width: 8.5em; }
.facts th { min-width: 0; color: var(--muted); }
.facts td { text-align: left; white-space: normal; overflow-wrap: anywhere; }
.marked { background: var(--shade); }
.marked th, .marked td { font-weight: 700; }
@media (max-width: 700px) {
  main { padding: 12px 14px 48px; }
  th, td { padding: 4px 8px; }
  nav { flex-direction: column; }
}
@media print {
  main { max-width: none; padding: 0; }
  nav, button { display: none; }
  select { border: 0; background: none; appearance: none; }
  figure, tr { break-inside: avoid; }
  h2, caption, thead { break-after: avoid; }
  p + figure { break-before: avoid; }
  .scroll { overflow: visible; }
}
"""

SCRIPT = """
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
"""
