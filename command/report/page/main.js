'use strict';

function main() {
  const runs = data.runs.map(readRun);
  giveTitles(runs);
  const each = (value) => [...new Set(runs.map(value))];
  const jobs = each((run) => `${run.workload} on ${run.ranks.length} ${run.ranks.length === 1 ? 'rank' : 'ranks'}`);
  document.getElementById('title').textContent = jobs.join(', ');
  document.title = `Stretto: ${jobs.join(', ')}`;
  document.getElementById('conditions').textContent =
    `${runs.map((run) => run.title).join(' · ')}; seed ${each((run) => run.seed).join(', ')}; ` +
    each((run) => run.conditions).join(' | ');
  for (const run of runs.filter((some) => !some.result.whole)) {
    document.getElementById('notices').append(element('div', 'notice',
      `${run.title} has not ended, or was cut short: what it had recorded until then is shown, ` +
      'without a test and without what waiting cost.'));
  }
  for (const run of runs.filter((some) => some.gaps.length > 0)) {
    document.getElementById('notices').append(element('div', 'notice',
      `Not all of ${run.title} is here, and what the page says of it leaves this out: ${run.gaps.join('; ')}.`));
  }
  if (runs.some((run) => run.timeline.merged > 1)) {
    document.getElementById('notices').append(element('div', 'notice',
      `So many steps that in the time line ${runs[0].timeline.merged} that follow one another are drawn as one.`));
  }
  document.getElementById('verdict').textContent = verdictOf(runs);
  addSummary(runs);
  addPredictions(runs);
  addTimeLines(runs);
  addStepTimes(runs, data.bars);
  addRanks(runs, data.bars);
  addStaleness(runs);
  addCurves(runs);
  addAdvice(data.advice, data.no_advice, runs);
  const opened = Math.round(performance.now());
  document.documentElement.dataset.openedMs = opened;
  document.getElementById('opened').textContent = `Opened in ${opened} ms.`;
}

// What goes wrong is said on the page, too: a person who opens it sees no console.
window.addEventListener('error', (event) => {
  document.documentElement.dataset.error = event.message;
  document.getElementById('notices').append(element('div', 'notice', `This page is not whole: ${event.message}`));
});

main();
