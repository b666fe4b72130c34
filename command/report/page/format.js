'use strict';

// Colours and numbers: one colour for one thing on all of the page, and a unit at every number.

const PHASES = [
  {name: 'computes', colour: '#4a86c5'},
  {name: 'is delayed (injected)', colour: '#c9a227'},
  {name: 'waits for others', colour: '#e0564f'},
];
const STALE_COLOUR = '#6b3fa0';
const RUN_COLOURS = ['#2f3e52', '#d9822b', '#2f8f5b', '#a0479b', '#3aa0b5', '#8a6d3b', '#b5485d', '#6f7bd0'];
// Told apart by eyes that see few colours, too (Okabe and Ito). More ranks than these go round the circle of hues by the
// golden angle, so that neighbours differ.
const RANK_COLOURS = ['#0072b2', '#e69f00', '#009e73', '#cc79a7', '#56b4e9', '#d55e00', '#8c8c1a', '#333333'];

function rankColour(rank, ranks) {
  return ranks <= RANK_COLOURS.length ? RANK_COLOURS[rank] : `hsl(${(137.5 * rank) % 360} 62% 44%)`;
}

/** Three digits that count: 12.3, 0.0123, 1,230. */
function significant(value, digits = 3) {
  if (value === null || value === undefined || !Number.isFinite(value)) return '–';
  if (value === 0) return '0';
  const rounded = Math.abs(Number(value.toPrecision(digits)));
  const decimals = Math.max(0, digits - 1 - Math.floor(Math.log10(rounded)));
  return value.toLocaleString('en', {minimumFractionDigits: Math.min(decimals, 9), maximumFractionDigits: Math.min(decimals, 9)});
}

function percent(share, decimals = 1) {
  return share === null || share === undefined || !Number.isFinite(share) ? '–' : `${(100 * share).toFixed(decimals)} %`;
}

/** The unit in which a length of time is read best. */
function unitOf(seconds) {
  if (seconds >= 10) return {name: 's', seconds: 1};
  return seconds >= 1e-3 ? {name: 'ms', seconds: 1e-3} : {name: 'µs', seconds: 1e-6};
}

function duration(seconds) {
  if (seconds === null || !Number.isFinite(seconds)) return '–';
  const unit = seconds >= 1 ? {name: 's', seconds: 1} : unitOf(seconds);
  return `${significant(seconds / unit.seconds)} ${unit.name}`;
}

/** An element with text, never with markup: names of folders may be anything. */
/** "rank 3", with its host where there are several. */
function rankName(run, rank) {
  const of = run.ranks[rank];
  return of && of.host ? `rank ${rank} (${of.host})` : `rank ${rank}`;
}

function element(tag, className, text) {
  const made = document.createElement(tag);
  if (className) made.className = className;
  if (text !== undefined) made.textContent = text;
  return made;
}

function mark(colour, text) {
  const entry = element('span');
  const square = element('span', 'mark');
  square.style.background = colour;
  entry.append(square, text);
  return entry;
}

/** How runs are called: by their algorithms, with the folder where that alone would be two, and a number if need be. */
function giveTitles(runs) {
  const twice = (run, value) => runs.some((other) => other !== run && value(other) === value(run));
  const titles = runs.map((run) => (twice(run, (some) => some.algorithm) ? `${run.algorithm} (${run.name})` : run.algorithm));
  titles.forEach((title, index) => {
    const before = titles.slice(0, index).filter((other) => other === title).length;
    runs[index].title = before > 0 ? `${title} ${before + 1}` : title;
  });
}

/** Buttons of which one is pressed; calls `choose` with its index. Returns a function that lets go of all. */
function choices(parent, names, pressed, choose) {
  const buttons = names.map((name, index) => {
    const button = element('button', '', name);
    button.type = 'button';
    button.onclick = () => {
      press(index);
      choose(index);
    };
    return button;
  });
  const press = (index) => buttons.forEach((button, i) => button.setAttribute('aria-pressed', i === index));
  press(pressed);
  parent.append(...buttons);
  return () => press(-1);
}
