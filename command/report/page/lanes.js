'use strict';

/**
 * The steps of one rank. Each begins at a time, then the rank computes, is delayed, and waits; what is left until its
 * next step is nothing of these. Sums of the phases from the start on answer in logarithmic time how long a rank was in
 * a phase between any two times: that is all a picture of a long run needs.
 */
class Lane {
  constructor(begin, tick, phases, staleness) {
    this.length = begin.length;
    this.phases = phases;
    this.staleness = staleness;
    this.begin = new Float64Array(this.length);
    this.before = phases.map(() => new Float64Array(this.length + 1));
    for (let i = 0; i < this.length; ++i) this.begin[i] = begin[i] * tick;
    phases.forEach((lengths, phase) => {
      const sums = this.before[phase];
      for (let i = 0; i < this.length; ++i) sums[i + 1] = sums[i] + lengths[i];
    });
  }

  /** The last step that has begun at that time; −1 before the first. */
  stepAt(time) {
    let low = 0, high = this.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.begin[middle] <= time) low = middle + 1;
      else high = middle;
    }
    return low - 1;
  }

  /** Seconds in each phase from the start until that time, into `out`. */
  until(time, out) {
    const step = this.stepAt(time);
    let left = step < 0 ? 0 : time - this.begin[step];
    for (let phase = 0; phase < 3; ++phase) {
      const length = step < 0 ? 0 : this.phases[phase][step];
      const done = Math.min(Math.max(left, 0), length);
      out[phase] = (step < 0 ? 0 : this.before[phase][step]) + done;
      left -= length;
    }
    return out;
  }

  end() {
    const last = this.length - 1;
    return last < 0 ? 0 : this.begin[last] + this.phases[0][last] + this.phases[1][last] + this.phases[2][last];
  }
}

/** [time, share of the ranks that wait], over all of a run. */
function waitingShare(lanes, end, points) {
  const rows = [];
  const before = lanes.map(() => 0), sums = [0, 0, 0];
  for (let i = 1; i <= points; ++i) {
    const time = (end * i) / points;
    let waited = 0;
    lanes.forEach((lane, rank) => {
      const now = lane.until(time, sums)[2];
      waited += now - before[rank];
      before[rank] = now;
    });
    rows.push([time - end / points / 2, waited / (lanes.length * (end / points))]);
  }
  return [[0, rows[0][1]], ...rows, [end, rows[rows.length - 1][1]]];
}

const STEP_WIDTH = 5;  // pixels; below it a lane shows shares

/** Draws a lane between two times into a rectangle. */
function drawLane(context, lane, from, to, x, y, width, height) {
  const first = Math.max(0, lane.stepAt(from)), last = lane.stepAt(to);
  if (last < first) return;
  const scale = width / (to - from);
  if ((last - first + 1) * STEP_WIDTH > width) drawShares(context, lane, from, to, x, y, width, height);
  else drawSteps(context, lane, first, last, (time) => x + (time - from) * scale, x, x + width, y, height);
}

function drawSteps(context, lane, first, last, place, left, right, y, height) {
  const clip = (position) => Math.min(Math.max(position, left), right);
  for (let i = first; i <= last; ++i) {
    let at = lane.begin[i];
    for (let phase = 0; phase < 3; ++phase) {
      const end = at + lane.phases[phase][i];
      const begin = clip(place(at)), width = clip(place(end)) - begin;
      if (width > 0) {
        context.fillStyle = PHASES[phase].colour;
        context.fillRect(begin, y, width, height);
      }
      at = end;
    }
    const begin = place(lane.begin[i]);
    if (begin > left && begin < right) {
      context.fillStyle = '#fff';
      context.fillRect(begin - 0.5, y, 1, height);
    }
    if (lane.staleness && lane.staleness[i] > 0) {
      const edge = Math.max(2, height / 5);
      context.fillStyle = STALE_COLOUR;
      context.fillRect(clip(begin), y + height - edge, clip(place(lane.begin[i] + lane.phases[0][i])) - clip(begin), edge);
    }
  }
}

/** Of each pixel the share of time in each phase, one above the other. */
function drawShares(context, lane, from, to, x, y, width, height) {
  const columns = Math.max(1, Math.round(width)), length = (to - from) / columns;
  const edges = [0, 1, 2].map(() => new Float64Array(columns));
  let before = lane.until(from, [0, 0, 0]), now = [0, 0, 0];
  for (let i = 0; i < columns; ++i) {
    lane.until(from + (i + 1) * length, now);
    let sum = 0;
    for (let phase = 0; phase < 3; ++phase) {
      sum += (now[phase] - before[phase]) / length;
      edges[phase][i] = Math.min(1, sum);
    }
    [before, now] = [now, before];
  }
  // The widest first: what lies above it covers it.
  for (let phase = 2; phase >= 0; --phase) {
    context.fillStyle = PHASES[phase].colour;
    context.beginPath();
    context.moveTo(x, y + height);
    for (let i = 0; i < columns; ++i) {
      const top = y + height * (1 - edges[phase][i]);
      context.lineTo(x + i, top);
      context.lineTo(x + i + 1, top);
    }
    context.lineTo(x + columns, y + height);
    context.fill();
  }
}
