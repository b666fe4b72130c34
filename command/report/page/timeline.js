'use strict';

// The time line is a chart of dygraphs, which has the axis, the zoom and the range below it; what it draws itself is the
// share of ranks that wait, and only there. The lanes are drawn under its empty plot.

const ROUND_WIDTH = 9;  // pixels between rounds from which on they are drawn

function laneHeight(ranks) {
  return Math.max(1, Math.min(24, Math.floor(620 / ranks)));
}

function rankTicks(ranks) {
  const every = Math.ceil(16 / laneHeight(ranks));
  const ticks = [];
  for (let rank = 0; rank < ranks; rank += every) ticks.push({v: ranks - rank - 0.5, label: `rank ${rank}`});
  return ticks;
}

function drawRounds(context, area, rounds, from, to) {
  const scale = area.w / (to - from);
  const inside = [];
  for (let i = 0; i < rounds.at.length; ++i) if (rounds.at[i] >= from && rounds.at[i] <= to) inside.push(rounds.at[i]);
  if (inside.length * ROUND_WIDTH > area.w) return;
  context.strokeStyle = '#22262b';
  context.lineWidth = 1;
  context.setLineDash([2, 3]);
  context.beginPath();
  for (const at of inside) {
    const x = Math.round(area.x + (at - from) * scale) + 0.5;
    context.moveTo(x, area.y);
    context.lineTo(x, area.y + area.h);
  }
  context.stroke();
  context.setLineDash([]);
}

/** What a step is about, for the pointer that stands on it. */
function describeStep(run, rank, time) {
  const lane = run.lanes[rank];
  const step = lane ? lane.stepAt(time) : -1;
  if (step < 0 || time > lane.end()) return '';
  const merged = run.timeline.merged;
  const lines = [`${rankName(run, rank)}, ` + (merged === 1 ? `step ${step}` : `${merged} steps from ${step * merged} on`)];
  lines.push(`computes ${duration(lane.phases[0][step])}`);
  if (lane.phases[1][step] > 0) lines.push(`is delayed ${duration(lane.phases[1][step])}`);
  lines.push(`waits ${duration(lane.phases[2][step])}`);
  const stale = lane.staleness ? lane.staleness[step] : -1;
  if (stale === 0) lines.push('its gradient was fresh');
  if (stale > 0) lines.push(`its gradient was ${stale} ${stale === 1 ? 'round' : 'rounds'} old`);
  return lines.join('\n');
}

function showTip(event, text) {
  const tip = document.getElementById('tip');
  tip.hidden = !text;
  tip.textContent = text;
  const left = event.clientX + 16, width = tip.offsetWidth;
  tip.style.left = `${left + width < window.innerWidth ? left : event.clientX - width - 12}px`;
  tip.style.top = `${event.clientY + 16}px`;
}

class TimeLines {
  constructor(runs) {
    this.runs = runs;
    this.end = Math.max(1e-9, ...runs.flatMap((run) => run.lanes.map((lane) => lane.end())));
    this.moving = false;
    const mark = this.firstWindow(24);
    this.charts = runs.map((run) => this.chart(run, mark));
    this.addButtons();
  }

  /** From the middle of the run, about so many steps of the first run. */
  firstWindow(steps) {
    const lanes = this.runs[0].lanes.filter((lane) => lane.length > 0);
    const lane = lanes[Math.floor(lanes.length / 2)];
    const length = Math.min(this.end, (lane.end() / lane.length) * steps / this.runs[0].timeline.merged);
    const from = lane.begin[Math.floor(lane.length / 2)];
    return length >= this.end ? [0, this.end] : [Math.min(from, this.end - length), Math.min(from + length, this.end)];
  }

  chart(run, dateWindow) {
    const ranks = run.lanes.length, height = laneHeight(ranks);
    const frame = element('div', 'chart');
    const plot = element('div', 'plot');
    plot.style.height = `${height * ranks + 92}px`;
    frame.append(element('h3', '', run.title), plot);
    document.getElementById('timelines').append(frame);
    const inUnit = (time, graph) => {
      const unit = unitOf(graph.xAxisRange()[1]);
      return `${(time / unit.seconds).toLocaleString('en', {maximumFractionDigits: 6})} ${unit.name}`;
    };
    const chart = new Dygraph(plot, waitingShare(run.lanes, this.end, 500), {
      labels: ['time', 'waiting'],
      colors: [PHASES[2].colour],
      dateWindow,
      valueRange: [0, ranks],
      plotter: () => {},
      legend: 'never',
      highlightCircleSize: 0,
      showRangeSelector: true,
      rangeSelectorHeight: 34,
      rangeSelectorPlotFillColor: PHASES[2].colour,
      rangeSelectorPlotFillGradientColor: '#f6c9c6',
      rangeSelectorPlotStrokeColor: PHASES[2].colour,
      rangeSelectorPlotLineWidth: 1,
      xlabel: 'time since the start of the run',
      axes: {
        x: {drawGrid: false, valueFormatter: String, axisLabelWidth: 80,
            axisLabelFormatter: (time, granularity, options, graph) => inUnit(time, graph)},
        y: {drawGrid: false, axisLabelWidth: 62, ticker: () => rankTicks(ranks)},
      },
      underlayCallback: (context, area, graph) => this.draw(context, area, graph, run),
      drawCallback: (graph) => this.follow(graph),
      // A drag up or down means nothing here.
      zoomCallback: () => chart.updateOptions({valueRange: [0, ranks]}),
    });
    plot.addEventListener('mousemove', (event) => {
      const area = chart.getArea(), [x, y] = chart.eventToDomCoords(event);
      const inside = x >= area.x && x <= area.x + area.w && y >= area.y && y < area.y + area.h;
      const rank = Math.floor(((y - area.y) / area.h) * ranks);
      showTip(event, inside ? describeStep(run, rank, chart.toDataXCoord(x)) : '');
    });
    plot.addEventListener('mouseleave', (event) => showTip(event, ''));
    return chart;
  }

  draw(context, area, graph, run) {
    const [from, to] = graph.xAxisRange();
    const height = area.h / run.lanes.length;
    const gap = height > 12 ? 3 : height > 4 ? 1 : 0;
    run.lanes.forEach((lane, rank) => {
      drawLane(context, lane, from, to, area.x, area.y + rank * height + gap / 2, area.w, height - gap);
    });
    drawRounds(context, area, run.rounds, from, to);
  }

  /** All runs show the same stretch of time. */
  follow(moved) {
    if (this.moving || !this.charts) return;
    this.moving = true;
    const dateWindow = moved.xAxisRange();
    for (const chart of this.charts) if (chart !== moved) chart.updateOptions({dateWindow});
    this.moving = false;
    if (this.letGo && !this.choosing) this.letGo();
  }

  addButtons() {
    const lengths = [24, 200];
    const show = (index) => {
      this.choosing = true;
      this.charts[0].updateOptions({dateWindow: index < lengths.length ? this.firstWindow(lengths[index]) : [0, this.end]});
      this.choosing = false;
    };
    this.letGo = choices(document.getElementById('windows'), [...lengths.map((steps) => `${steps} steps`), 'all'], 0, show);
  }
}

function addTimeLines(runs) {
  const legend = document.getElementById('phases');
  const delayed = runs.some((run) => run.timeline.delayed);
  PHASES.forEach((phase, index) => {
    if (index !== 1 || delayed) legend.append(mark(phase.colour, phase.name));
  });
  if (runs.some((run) => run.ranks.some((rank) => rank.stale > 0))) legend.append(mark(STALE_COLOUR, 'gradient was stale'));
  if (runs.some((run) => run.rounds.at.length > 0)) legend.append(element('span', '', '┊ a round is complete'));
  return new TimeLines(runs);
}
