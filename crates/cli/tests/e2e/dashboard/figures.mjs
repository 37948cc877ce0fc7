// Literal tests of the dashboard's computations: node figures.mjs FOLDER.

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';

const folder = process.argv[2];

// The page's scripts are modules whose names end with .js.
const load = (name) => {
  const text = readFileSync(join(folder, name));
  return import(`data:text/javascript;base64,${text.toString('base64')}`);
};

const metrics = await load('metrics.js');
const format = await load('format.js');

const SPACE = '\u202f';
const spaced = (text) => text.replaceAll('_', SPACE);

const TEXT = `# HELP requests_total Requests.
# TYPE requests_total counter
requests_total{opcode="query"} 10
requests_total{opcode="execute",level="a\\"b\\\\c\\nd, e=\\"f\\""} 30
plain 1.5e3
d_bucket{le="0.1"} 0
d_bucket{le="0.2"} 90
d_bucket{le="1"} 100
d_bucket{le="+Inf"} 100
`;

const sample = (at, text) => ({ at, values: metrics.parse(text) });

const TESTS = {
  'names, labels and values are parsed'() {
    const found = metrics.parse(TEXT);
    assert.deepEqual([...found.keys()], ['requests_total', 'plain', 'd_bucket']);
    assert.deepEqual(found.get('plain'), [{ labels: {}, value: 1500 }]);
    assert.deepEqual(found.get('requests_total')[1], {
      labels: { opcode: 'execute', level: 'a"b\\c\nd, e="f"' }, value: 30,
    });
    assert.equal(found.get('d_bucket')[3].labels.le, '+Inf');
    assert.equal(metrics.parse('x +Inf\n').get('x')[0].value, Infinity);
  },
  'values are summed by their labels'() {
    const one = sample(0, TEXT);
    assert.equal(metrics.sum(one, 'requests_total'), 40);
    assert.equal(metrics.sum(one, 'requests_total', { opcode: 'query' }), 10);
    assert.equal(metrics.sum(one, 'requests_total', { opcode: ['query', 'execute'] }), 40);
    assert.equal(metrics.sum(one, 'requests_total', { opcode: 'batch' }), 0);
    assert.equal(metrics.sum(one, 'absent'), undefined);
    assert.equal(metrics.sum(undefined, 'plain'), undefined);
    assert.deepEqual([...metrics.by(one, 'requests_total', 'opcode')], [['query', 10], ['execute', 30]]);
  },
  'rates are per second, and begin anew with a counter'() {
    const [from, to] = [sample(10, 'c 100\n'), sample(14, 'c 300\n')];
    assert.equal(metrics.rate(from, to, 'c'), 50);
    assert.equal(metrics.rate(to, sample(18, 'c 40\n'), 'c'), 10, 'the server was restarted');
    assert.equal(metrics.rate(from, from, 'c'), undefined);
    assert.equal(metrics.rate(from, to, 'absent'), undefined);
  },
  'percentiles agree with Prometheus'() {
    const [from, to] = [sample(0, ''), sample(1, TEXT)];
    const near = (fraction, expected) => {
      const found = metrics.percentile(from, to, 'd', fraction);
      assert.ok(Math.abs(found - expected) < 1e-9, `${fraction}: ${found} instead of ${expected}`);
    };
    near(0.45, 0.15);
    near(0.9, 0.2);
    near(0.95, 0.6);
    near(1, 1);
    assert.equal(metrics.percentile(to, to, 'd', 0.5), undefined, 'nothing came between the samples');
    const beyond = sample(2, 'd_bucket{le="1"} 0\nd_bucket{le="+Inf"} 5\n');
    assert.equal(metrics.percentile(from, beyond, 'd', 0.5), 1, 'the last bound that is a number');
  },
  'history keeps rates, gaps and restarts apart'() {
    const { history } = metrics;
    history.track('c', (from, to) => metrics.rate(from, to, 'c'));
    const add = (at, value, started = 1) => history.add(`c ${value}\nprocess_start_time_seconds ${started}\n`, at);
    add(0, 0);
    assert.equal(history.rate('c'), undefined, 'one sample has no rate');
    add(2, 20);
    add(4, 60);
    assert.deepEqual(history.points('c'), [10, 20]);
    assert.equal(history.rate('c'), 15);
    add(100, 70);
    assert.deepEqual(history.points('c'), [10, 20, null], 'a hidden page took no samples');
    assert.equal(history.rate('c'), undefined);
    add(102, 90);
    assert.equal(history.rate('c'), 10);
    add(104, 8, 2);
    assert.equal(history.rate('c'), undefined, 'another process');
    for (let at = 106; at < 2000; at += 2) add(at, at, 2);
    assert.equal(history.points('c').length, 300, 'ten minutes');
    assert.equal(history.times.length, 300);
    assert.equal(history.samples.length, 8);
    assert.equal(history.rate('c'), 1);
    add(2000, 3000, 2);
    assert.equal(history.rate('c'), (3000 - 1990) / 10, 'ten seconds');
    for (let at = 2002; at <= 2008; at += 2) add(at, 3000, 2);
    assert.equal(history.rate('c'), (3000 - 1998) / 10, 'the rise is still within ten seconds');
    add(2010, 3000, 2);
    assert.equal(history.rate('c'), 0, 'the rise was ten seconds ago');
  },
  'numbers have their units'() {
    const cases = {
      count: [[0, '0'], [999.6, spaced('1_000')], [1234567, spaced('1_234_567')], [NaN, '–'], [undefined, '–']],
      short: [
        [0, '0'], [0.5, '0.50'], [12.34, '12.3'], [7, '7'], [1234.5, spaced('1_235')], [9999, spaced('9_999')],
        [12345, spaced('12.3_k')], [2.5e6, spaced('2.50_M')], [-3e9, spaced('-3.00_G')], [null, '–'],
      ],
      bytes: [[0, spaced('0_B')], [1023, spaced('1_023_B')], [1536, spaced('1.50_KiB')], [5 * 2 ** 30, spaced('5.00_GiB')]],
      bytesPerSecond: [[2048, spaced('2.00_KiB/s')], [undefined, '–']],
      perSecond: [[12345, spaced('12.3_k/s')], [undefined, '–']],
      seconds: [
        [0, spaced('0_ms')], [2.5e-5, spaced('25.0_µs')], [0.0012, spaced('1.20_ms')], [1.5, spaced('1.50_s')],
        [119, spaced('119_s')], [120, spaced('2_min')],
      ],
      duration: [
        [0.4, spaced('0_s')], [59, spaced('59_s')], [61, spaced('1_min 1_s')], [3600, spaced('1_h')],
        [11520, spaced('3_h 12_min')], [86400, spaced('1_d')], [90061, spaced('1_d 1_h')],
      ],
      percent: [[0.123, spaced('12.3_%')], [1, spaced('100_%')], [undefined, '–']],
      text: [['', '–'], [null, '–'], [0, '0'], ['a', 'a']],
      yesNo: [[true, 'yes'], [false, 'no'], [null, '–']],
      shown: [[{ rows: [1, 2], next: null }, '2'], [{ rows: [1], next: '00' }, 'the first 1']],
    };
    for (const [name, pairs] of Object.entries(cases)) {
      for (const [value, expected] of pairs) assert.equal(format[name](value), expected, `${name}(${JSON.stringify(value)})`);
    }
  },
};

for (const [name, test] of Object.entries(TESTS)) {
  try {
    test();
  } catch (error) {
    console.error(`${name}:\n${error.stack}`);
    process.exit(1);
  }
}
console.log(`${Object.keys(TESTS).length} tests passed`);
