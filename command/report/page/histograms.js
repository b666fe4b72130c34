'use strict';

// Bars of dygraphs, which has lines: a plotter of ours draws the rectangles.

const CHART = {
  legend: 'never',
  highlightCircleSize: 0,
  axisLineColor: '#c9ced4',
  gridLineColor: '#eceef1',
  labelsKMB: false,
};

/**
 * Of each point a group of bars beside each other: of all series, where it is the plotter of the chart; `alone`: of the
 * series whose plotter it is. `width`: of a group, in units of x.
 */
function barPlotter(width, alone) {
  return (event) => {
    if (event.seriesIndex !== 0) return;
    const series = alone ? [event.points] : event.allSeriesPoints, context = event.drawingContext;
    const zero = event.dygraph.toDomYCoord(0);
    const scale = event.dygraph.toDomXCoord(1) - event.dygraph.toDomXCoord(0);
    const bar = (width * scale) / series.length;
    series.forEach((points, index) => {
      context.fillStyle = event.dygraph.getColors()[index];
      for (const point of points) {
        if (!(point.yval > 0)) continue;
        const left = point.canvasx - (width * scale) / 2 + index * bar;
        context.fillRect(left, point.canvasy, Math.max(bar - 1, 0.75), zero - point.canvasy);
      }
    });
  };
}

function plotIn(parent, title) {
  const frame = element('div', 'chart'), plot = element('div', 'plot');
  frame.append(element('h3', '', title), plot);
  parent.append(frame);
  return plot;
}

/** The ranks that a histogram shows beside all of them: every one, or of many the quickest and the slowest. */
function shownRanks(run) {
  const ranks = run.ranks.map((_, rank) => rank).filter((rank) => run.ranks[rank].steps > 0);
  if (ranks.length <= RANK_COLOURS.length) return ranks;
  ranks.sort((a, b) => run.ranks[a].mean - run.ranks[b].mean);
  return [ranks[0], ranks[ranks.length - 1]];
}

const sharesOf = (counts) => {
  const sum = counts.reduce((a, b) => a + b, 0) || 1;
  return counts.map((count) => (100 * count) / sum);
};

function addStepTimes(runs, bars) {
  const unit = unitOf(bars.from + bars.width * bars.count);
  if (bars.open) document.getElementById('clipped').textContent = ' The last bar has all that is longer, too.';
  const shown = new Map();
  const histograms = runs.map((run) => {
    const ranks = shownRanks(run);
    for (const rank of ranks) shown.set(rank, rankColour(rank, run.ranks.length));
    const all = run.ranks[0].bars.map((_, bar) => run.ranks.reduce((sum, rank) => sum + rank.bars[bar], 0));
    return {run, ranks, columns: [sharesOf(all), ...ranks.map((rank) => sharesOf(run.ranks[rank].bars))]};
  });
  const highest = Math.max(...histograms.flatMap((histogram) => histogram.columns.flat()));
  const width = (bars.width || 1e-6) / unit.seconds, from = bars.from / unit.seconds;
  for (const {run, ranks, columns} of histograms) {
    const rows = columns[0].map((_, bar) => [from + (bar + 0.5) * width, ...columns.map((shares) => shares[bar])]);
    const bounds = [from - width / 2, from + (bars.count + 0.5) * width];
    const series = {'all ranks': {plotter: barPlotter(width, true)}};
    for (const rank of ranks) series[`rank ${rank}`] = {strokeWidth: 1.6};
    new Dygraph(plotIn(document.getElementById('histograms'), run.title), rows, {
      ...CHART,
      labels: ['step time', 'all ranks', ...ranks.map((rank) => `rank ${rank}`)],
      colors: ['#d5dae0', ...ranks.map((rank) => rankColour(rank, run.ranks.length))],
      series,
      dateWindow: bounds,
      valueRange: [0, highest * 1.06],
      xlabel: `step time in ${unit.name}`,
      ylabel: 'share of steps in %',
      axes: {x: {drawGrid: false, valueFormatter: String, axisLabelFormatter: (x) => x.toLocaleString('en', {maximumSignificantDigits: 4})}},
    });
  }
  const legend = document.getElementById('rank-colours');
  legend.append(mark('#d5dae0', 'all ranks'));
  for (const [rank, colour] of [...shown].sort((a, b) => a[0] - b[0])) legend.append(mark(colour, `rank ${rank}`));
}

/** Bars of all runs beside each other over whole numbers. `counts`: of each run. */
function addCounts(parent, title, runs, counts, xlabel, ylabel) {
  const length = Math.max(...counts.map((of) => of.length));
  const shares = counts.map(sharesOf);
  const rows = Array.from({length}, (_, x) => [x, ...shares.map((of) => of[x] || 0)]);
  new Dygraph(plotIn(parent, title), [[-1, ...runs.map(() => 0)], ...rows, [length, ...runs.map(() => 0)]], {
    ...CHART,
    labels: [xlabel, ...runs.map((run) => run.title)],
    colors: runs.map((run) => run.colour),
    plotter: barPlotter(0.8),
    dateWindow: [-0.6, length - 0.4],
    valueRange: [0, Math.max(...shares.flat()) * 1.06],
    xlabel,
    ylabel,
    axes: {x: {drawGrid: false, valueFormatter: String, ticker: (from, to) => wholeTicks(from, to, length)}},
  });
}

function wholeTicks(from, to, length) {
  const every = Math.max(1, Math.ceil((to - from) / 12)), ticks = [];
  for (let x = 0; x < length; x += every) ticks.push({v: x, label: String(x)});
  return ticks;
}

function addStaleness(runs) {
  const parent = document.getElementById('staleness');
  const aged = runs.filter((run) => run.staleness.length > 0);
  const inRounds = runs.filter((run) => run.rounds.at.length > 0);
  if (aged.length > 0) {
    addCounts(parent, 'How old gradients were', aged, aged.map((run) => run.staleness), 'staleness, as the algorithm counts it',
              'share of batches in %');
  }
  if (inRounds.length > 0) {
    const counts = inRounds.map((run) => {
      const of = new Array(run.ranks.length + 1).fill(0);
      for (const ranks of run.rounds.contributors) ++of[ranks];
      return of;
    });
    addCounts(parent, 'Who was in a round', inRounds, counts, 'ranks that brought something', 'share of rounds in %');
  }
  if (aged.length + inRounds.length > 0) parent.after(runLegend(runs));
  else parent.append(element('p', 'about', 'Nothing here is averaged in rounds of all ranks, and no algorithm has counted how old gradients were.'));
}

function runLegend(runs) {
  const legend = element('div', 'legend');
  for (const run of runs) legend.append(mark(run.colour, run.title));
  return legend;
}
