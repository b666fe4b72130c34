'use strict';

// What the command has written (command/report/page.cc). Long columns are base64 of little-endian numbers.

const data = JSON.parse(document.getElementById('data').textContent);

function bytesOf(text) {
  if (Uint8Array.fromBase64) return Uint8Array.fromBase64(text);
  const characters = atob(text);
  const bytes = new Uint8Array(characters.length);
  for (let i = 0; i < bytes.length; ++i) bytes[i] = characters.charCodeAt(i);
  return bytes;
}

function column(Numbers, text) {
  const bytes = bytesOf(text);
  return new Numbers(bytes.buffer, bytes.byteOffset, bytes.byteLength / Numbers.BYTES_PER_ELEMENT);
}

/** The lanes of a run: one of each rank. */
function lanesOf(timeline) {
  const begin = column(Uint32Array, timeline.begin);
  const none = new Float32Array(begin.length);
  const phases = ['computed', 'delayed', 'waited'].map(
    (name) => (timeline[name] ? column(Float32Array, timeline[name]) : none));
  const staleness = timeline.staleness ? column(Int16Array, timeline.staleness) : null;
  let first = 0;
  return timeline.lengths.map((length) => {
    const part = (numbers) => numbers.subarray(first, first + length);
    const lane = new Lane(part(begin), timeline.tick, phases.map(part), staleness && part(staleness));
    first += length;
    return lane;
  });
}

function readRun(run, index) {
  return {
    ...run,
    index,
    colour: RUN_COLOURS[index % RUN_COLOURS.length],
    lanes: lanesOf(run.timeline),
    rounds: {
      at: column(Float64Array, run.rounds.at),
      number: column(Uint32Array, run.rounds.number),
      contributors: column(Uint32Array, run.rounds.contributors),
    },
  };
}
