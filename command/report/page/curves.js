'use strict';

/** Points of several runs at places of their own, as the rows of one chart: [x, a value or null of each run]. */
function merged(series) {
  const rows = [];
  series.forEach((points, index) => {
    for (const [x, y] of points) {
      const row = [x, ...series.map(() => null)];
      row[index + 1] = y;
      rows.push(row);
    }
  });
  return rows.sort((a, b) => a[0] - b[0]);
}

/** The mean of some points around each, so that a curve shows where it goes. */
function smoothed(points) {
  const half = Math.floor(points.length / 60);
  return points.map(([x], i) => {
    const some = points.slice(Math.max(0, i - half), i + half + 1);
    return [x, some.reduce((sum, point) => sum + point[1], 0) / some.length];
  });
}

/** Logarithmic where a curve falls to a hundredth: the end would lie on the axis otherwise. */
function fallsFar(series) {
  const values = series.flatMap((points) => points.map((point) => point[1]));
  return values.every((value) => value > 0) && Math.max(...values) > 100 * Math.min(...values);
}

const AXES = [{name: 'over time', label: 'seconds since the first step', column: 0},
              {name: 'over batches', label: 'batches applied', column: 1}];

function curveChart(runs, title, ylabel, seriesAt, options) {
  const plot = plotIn(document.getElementById('curves'), title);
  const chart = new Dygraph(plot, merged(seriesAt(0)), {
    ...CHART,
    ...options,
    labels: ['x', ...runs.map((run) => run.title)],
    colors: runs.map((run) => run.colour),
    strokeWidth: 1.7,
    connectSeparatedPoints: true,
    xlabel: AXES[0].label,
    ylabel,
    axes: {x: {drawGrid: false, valueFormatter: String, axisLabelFormatter: (x) => x.toLocaleString('en')},
           y: {axisLabelFormatter: (y) => (y >= 0.01 || y === 0 ? significant(y, 2) : y.toExponential(0))}},
  });
  return (axis) => chart.updateOptions({file: merged(seriesAt(AXES[axis].column)), xlabel: AXES[axis].label, dateWindow: null});
}

function addCurves(runs) {
  const charts = [];
  const points = (of, value, smooth) => (axis) =>
    runs.map((run) => {
      const there = run[of].filter((point) => point[value] !== null).map((point) => [point[axis], point[value]]);
      return smooth ? smoothed(there) : there;
    });
  const losses = points('curve', 2, true);
  if (losses(0).some((of) => of.length > 1)) {
    charts.push(curveChart(runs, 'Training loss', 'loss, smoothed', losses, {logscale: fallsFar(losses(0))}));
  }
  const tests = {drawPoints: true, pointSize: 3};
  if (runs.some((run) => run.evaluations.length > 1)) {
    charts.push(curveChart(runs, 'Loss on test data', 'loss', points('evaluations', 2), tests));
    const accuracy = points('evaluations', 3);
    if (accuracy(0).some((of) => of.length > 1)) {
      const inPercent = (axis) => accuracy(axis).map((of) => of.map(([x, y]) => [x, 100 * y]));
      charts.push(curveChart(runs, 'Accuracy on test data', 'accuracy in %', inPercent, tests));
    }
  }
  if (charts.length === 0) {
    document.getElementById('curves').append(element('p', 'about', 'These runs have recorded no loss.'));
    return;
  }
  document.getElementById('run-colours').replaceWith(runLegend(runs));
  choices(document.getElementById('curve-axis'), AXES.map((axis) => axis.name), 0,
          (axis) => charts.forEach((show) => show(axis)));
}
