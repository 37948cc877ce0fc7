// The server's metrics: read from /metrics, kept for some minutes, and made into rates and percentiles.

// Points of a plot: ten minutes at one each two seconds.
const POINTS_MAX = 300;
// Whole samples, for rates over some seconds.
const SAMPLES_MAX = 8;
// Seconds without a sample after which rates begin anew: a hidden page takes none.
const GAP = 10;

// Parses Prometheus' text format: name -> [{ labels, value }].
export function parse(text) {
  const found = new Map();
  for (const line of text.split('\n')) {
    if (!line || line[0] === '#') continue;
    const end = line.lastIndexOf(' ');
    const value = Number(line.slice(end + 1).replace('+Inf', 'Infinity'));
    const head = line.slice(0, end);
    const brace = head.indexOf('{');
    const name = brace < 0 ? head : head.slice(0, brace);
    const labels = brace < 0 ? {} : parseLabels(head.slice(brace + 1, -1));
    if (!found.has(name)) found.set(name, []);
    found.get(name).push({ labels, value });
  }
  return found;
}

function parseLabels(text) {
  const labels = {};
  for (const [, name, value] of text.matchAll(/([a-zA-Z_]\w*)="((?:[^"\\]|\\.)*)"/g)) {
    labels[name] = value.replace(/\\(.)/g, (_, escaped) => (escaped === 'n' ? '\n' : escaped));
  }
  return labels;
}

const matches = (labels, wanted) =>
  Object.entries(wanted).every(([name, value]) =>
    Array.isArray(value) ? value.includes(labels[name]) : labels[name] === value);

// The sum of a metric's values; undefined if there are none.
export function sum(sample, name, wanted = {}) {
  const series = sample?.values.get(name);
  if (!series) return undefined;
  let total = 0;
  for (const { labels, value } of series) if (matches(labels, wanted)) total += value;
  return total;
}

// The values of a metric by one of its labels.
export function by(sample, name, label, wanted = {}) {
  const grouped = new Map();
  for (const { labels, value } of sample?.values.get(name) ?? []) {
    if (matches(labels, wanted)) {
      grouped.set(labels[label], (grouped.get(labels[label]) ?? 0) + value);
    }
  }
  return grouped;
}

// The rate of a counter between two samples, per second. A server that was restarted begins at 0.
export function rate(from, to, name, wanted = {}) {
  const [begin, end] = [sum(from, name, wanted), sum(to, name, wanted)];
  if (begin === undefined || end === undefined || to.at <= from.at) return undefined;
  return (end >= begin ? end - begin : end) / (to.at - from.at);
}

// A percentile of a histogram between two samples, as Prometheus computes it; undefined without values.
export function percentile(from, to, name, fraction, wanted = {}) {
  const buckets = (sample) => {
    const grouped = new Map();
    for (const { labels, value } of sample?.values.get(`${name}_bucket`) ?? []) {
      if (!matches(labels, wanted)) continue;
      const bound = labels.le === '+Inf' ? Infinity : Number(labels.le);
      grouped.set(bound, (grouped.get(bound) ?? 0) + value);
    }
    return grouped;
  };
  const earlier = buckets(from);
  const counts = [...buckets(to)]
    .map(([bound, value]) => [bound, value - (earlier.get(bound) ?? 0)])
    .sort(([one], [other]) => one - other);
  const total = counts.at(-1)?.[1] ?? 0;
  if (!(total > 0)) return undefined;
  const rank = fraction * total;
  let [low, below] = [0, 0];
  for (const [bound, upTo] of counts) {
    if (upTo >= rank) {
      if (bound === Infinity) return low;
      return upTo > below ? low + (bound - low) * (rank - below) / (upTo - below) : bound;
    }
    [low, below] = [bound, upTo];
  }
  return low;
}

// The last samples, and the points of the plots. Pages are told of new ones.
export const history = {
  samples: [],
  times: [],
  tracks: new Map(),
  error: null,
  // Whether metrics need a token or a session, which this browser does not have.
  needsLogin: false,
  listeners: new Set(),
  // Computes a value from each sample and the one before, from now on.
  track(name, value) {
    this.tracks.set(name, { value, points: this.times.map(() => null) });
  },
  points(name) {
    return this.tracks.get(name)?.points ?? [];
  },
  add(text, at) {
    const sample = { at, values: parse(text) };
    const started = sum(sample, 'process_start_time_seconds');
    // Another process counts from 0.
    if (this.last && sum(this.last, 'process_start_time_seconds') !== started) this.samples = [];
    if (this.last && at - this.last.at > GAP) {
      this.samples = [];
      this.addGap(at);
    }
    const before = this.last;
    this.samples.push(sample);
    if (this.samples.length > SAMPLES_MAX) this.samples.shift();
    if (before) this.addPoint(before, sample);
    this.error = null;
    this.needsLogin = false;
    this.tell();
  },
  addGap(at) {
    this.times.push(at);
    for (const track of this.tracks.values()) track.points.push(null);
    this.shorten();
  },
  addPoint(before, sample) {
    this.times.push(sample.at);
    for (const track of this.tracks.values()) track.points.push(track.value(before, sample) ?? null);
    this.shorten();
  },
  shorten() {
    if (this.times.length > POINTS_MAX) {
      this.times.shift();
      for (const track of this.tracks.values()) track.points.shift();
    }
  },
  fail(error) {
    this.error = error;
    this.tell();
  },
  tell() {
    for (const listener of this.listeners) listener();
  },
  get last() {
    return this.samples.at(-1);
  },
  // The sample that rates are counted from: some seconds before the last one.
  get before() {
    return this.samples.length < 2 ? undefined : this.samples.at(Math.max(0, this.samples.length - 6));
  },
  sum(name, wanted) {
    return sum(this.last, name, wanted);
  },
  by(name, label, wanted) {
    return by(this.last, name, label, wanted);
  },
  rate(name, wanted) {
    return this.before && rate(this.before, this.last, name, wanted);
  },
  percentile(name, fraction, wanted) {
    return this.before && percentile(this.before, this.last, name, fraction, wanted);
  },
};
