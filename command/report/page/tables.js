'use strict';

/** `cells`: text, or an element. */
function table(headings, rows) {
  const made = element('table'), head = element('tr'), body = element('tbody');
  for (const heading of headings) head.append(element('th', '', heading));
  for (const cells of rows) {
    const row = element('tr', cells.chosen ? 'chosen' : '');
    for (const cell of cells) {
      const place = element('td');
      place.append(cell);
      row.append(place);
    }
    body.append(row);
  }
  const top = element('thead');
  top.append(head);
  made.append(top, body);
  const frame = element('div', 'scroll');
  frame.append(made);
  return frame;
}

/** A number, and beside it a bar that is as long as its share of the largest. */
function withBar(text, value, largest, colour) {
  const cell = element('span', '', text), bar = element('span', 'share'), fill = element('span');
  fill.style.width = `${largest > 0 && value > 0 ? Math.min(100, (100 * value) / largest) : 0}%`;
  fill.style.background = colour;
  bar.append(fill);
  cell.append(bar);
  return cell;
}

function addSummary(runs) {
  const results = runs.map((run) => run.result), first = results[0];
  const fastest = Math.max(...results.map((result) => result.batches_per_s));
  const rows = runs.map((run, index) => {
    const result = results[index];
    const staleness = result.staleness_mean === undefined ? '–'
      : `${significant(result.staleness_mean, 2)} (at most ${result.staleness_max})`;
    return [
      mark(run.colour, run.title + (result.whole ? '' : ' (cut short)')),
      withBar(significant(result.batches_per_s), result.batches_per_s, fastest, run.colour),
      `${significant(result.batches_per_s / first.batches_per_s)}×`,
      percent(result.of_ideal),
      percent(result.wait_share),
      staleness,
      significant(result.loss),
      percent(result.accuracy),
      result.batches.toLocaleString('en'),
      duration(result.seconds),
    ];
  });
  document.getElementById('summary').append(table(
    ['run', 'batches/s', 'speed-up', 'of ideal', 'waiting', 'staleness', 'test loss', 'test accuracy', 'batches', 'took'],
    rows));
}

/** What `stretto train --predict` has said of a run. */
function addPredictions(runs) {
  for (const run of runs.filter((one) => one.prediction)) {
    const {first_steps: steps, predicted, measured, drifts} = run.prediction;
    const after = measured === null ? '' : `; measured after them: ${significant(measured)}, ${percent(measured / predicted)} of it`;
    const list = element('ul', 'about');
    for (const drift of drifts) {
      const until = drift.until === null ? 'to the end' : `to ${duration(drift.until)}`;
      list.append(element('li', '', `from ${duration(drift.second)} ${until}: ${significant(drift.measured)} batches/s: ${drift.says}`));
    }
    const text = `${run.title}: predicted from the first ${steps} steps of each rank: ${significant(predicted)} batches/s${after}.` +
      (drifts.length === 0 ? ' Never off by more than 10 % for long.' : '');
    document.getElementById('summary').append(element('p', 'about', text), ...(drifts.length > 0 ? [list] : []));
  }
}

const roughly = (share) => percent(share, share < 0.01 ? 1 : 0);

/** What the table says, in a sentence. */
function verdictOf(runs) {
  const whole = runs.filter((run) => run.result.whole);
  if (whole.length < 2 || whole[0] !== runs[0]) {
    const run = runs[0], means = run.ranks.map((rank) => rank.mean);
    const slowest = means.indexOf(Math.max(...means));
    return `The ranks of ${run.title} waited for ${roughly(run.result.wait_share)} of their time; ` +
      `${rankName(run, slowest)} had the longest steps, ${duration(means[slowest])} in the mean.`;
  }
  const rate = (run) => run.result.batches_per_s;
  const best = whole.slice(1).reduce((a, b) => (rate(b) > rate(a) ? b : a));
  return `${best.title} applied ${significant(rate(best) / rate(runs[0]))}× as many batches a second as ` +
    `${runs[0].title}: its ranks waited for ${roughly(best.result.wait_share)} of their time instead of ` +
    `${roughly(runs[0].result.wait_share)}.`;
}

/** The shortest and the longest step, the mean, and a standard deviation to both sides, on an axis that all share. */
function spread(rank, from, to, colour) {
  const width = 170, space = 'http://www.w3.org/2000/svg';
  const drawing = document.createElementNS(space, 'svg');
  drawing.setAttribute('width', width);
  drawing.setAttribute('height', 14);
  const place = (time) => Math.min(width - 2, Math.max(2, 2 + ((width - 4) * (time - from)) / (to - from || 1)));
  const part = (left, right, top, height, opacity) => {
    const made = document.createElementNS(space, 'rect');
    const attributes = {x: left, y: top, width: Math.max(1, right - left), height, fill: colour, opacity};
    for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
    drawing.append(made);
  };
  part(place(rank.least), place(rank.most), 6.5, 1, 1);
  if (rank.deviation !== null) {
    part(place(Math.max(rank.least, rank.mean - rank.deviation)), place(Math.min(rank.most, rank.mean + rank.deviation)), 3, 8, 0.35);
  }
  part(place(rank.mean) - 1, place(rank.mean) + 1, 1, 12, 1);
  return drawing;
}

/** The host whose ranks have cost the others most, in a sentence; empty where all ranks are on one. */
function costliestHost(run) {
  const costs = new Map();
  for (const {host, cost} of run.ranks) if (host && cost !== null) costs.set(host, (costs.get(host) || 0) + cost);
  const all = [...costs.values()].reduce((sum, cost) => sum + cost, 0);
  if (!(all > 0)) return '';
  const [host, cost] = [...costs].reduce((a, b) => (b[1] > a[1] ? b : a));
  return `Of the hosts ${host} has cost the others most: ${duration(cost)}, ${percent(cost / all, 0)} of all waiting for somebody.`;
}

function addRanks(runs, bars) {
  const parent = document.getElementById('ranks');
  const ranks = runs.flatMap((run) => run.ranks);
  const most = (name) => Math.max(...ranks.map((rank) => rank[name] || 0));
  const waited = most('waited'), cost = most('cost'), end = bars.from + bars.width * bars.count;
  const aged = ranks.some((rank) => rank.fresh + rank.stale > 0);
  for (const run of runs) {
    const rows = run.ranks.map((rank, index) => {
      const colour = rankColour(index, run.ranks.length);
      const row = [mark(colour, rankName(run, index)), rank.steps.toLocaleString('en')];
      if (rank.steps === 0) return [...row, ...Array(aged ? 8 : 7).fill('–')];
      row.push(spread(rank, Math.min(bars.from, 0.8 * bars.from), end, colour));
      for (const name of ['mean', 'deviation', 'least', 'most']) row.push(duration(rank[name]));
      row.push(withBar(duration(rank.waited), rank.waited, waited, PHASES[2].colour));
      row.push(rank.cost === null ? '–' : withBar(duration(rank.cost), rank.cost, cost, colour));
      if (aged) row.push(percent(rank.fresh / (rank.fresh + rank.stale), 0));
      return row;
    });
    const headings = ['rank', 'steps', 'step times', 'mean', 'std. dev.', 'min', 'max', 'waited', 'cost others'];
    parent.append(element('h3', '', run.title), table(aged ? [...headings, 'fresh'] : headings, rows));
    const costs = costliestHost(run);
    if (costs) parent.append(element('p', 'about', costs));
  }
}

function addAdvice(advice, why, runs) {
  if (!advice) {
    document.getElementById('advice-about').textContent = why;
    return;
  }
  document.getElementById('advice-verdict').textContent = advice.verdict;
  document.getElementById('advice-about').textContent =
    `Each algorithm itself, on a virtual clock, with the step times that the ranks of ${advice.run} have measured. ` +
    `${advice.messages}. Intervals are of 95 %. What staleness costs in steps depends on the model.`;
  const best = Math.max(...advice.settings.map((setting) => setting.batches_per_s));
  const rows = advice.settings.map((setting) => {
    const [low, high] = setting.batches_per_s_interval;
    const spread = high === null ? '' : ` ± ${significant((high - low) / 2, 2)}`;
    const measured = runs.filter((run) => run.setting === setting.algorithm && run.result.whole);
    const row = [
      setting.algorithm + (setting.recommended ? '  ← recommended' : ''),
      withBar(significant(setting.batches_per_s) + spread, setting.batches_per_s, best, '#8795a6'),
      measured.length > 0 ? measured.map((run) => significant(run.result.batches_per_s)).join(', ') : '',
      `${significant(setting.gain)}×`,
      percent(setting.of_ideal),
      percent(setting.wait_share),
      percent(setting.fresh_share, 0),
      setting.staleness_mean === null ? '–' : `${significant(setting.staleness_mean, 2)} (at most ${setting.staleness_max})`,
      setting.unseen_batches === null ? '–' : significant(setting.unseen_batches, 2),
    ];
    row.chosen = setting.recommended;
    return row;
  });
  document.getElementById('advice').append(table(
    ['setting', 'batches/s, predicted', 'measured here', 'of sync', 'of ideal', 'waiting', 'fresh', 'staleness, rounds', 'unseen batches'], rows));
}
