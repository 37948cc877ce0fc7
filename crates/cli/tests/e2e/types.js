// Values of every type through the stock Node driver: node types.js PORT
'use strict';

const assert = require('node:assert');
const { Client, types } = require('cassandra-driver');

const { BigDecimal, Duration, InetAddress, Integer, LocalDate, LocalTime, Long } = types;
const uuid = types.Uuid.fromString('f47ac10b-58cc-4372-a567-0e02b2c3d479');
const timeuuid = types.TimeUuid.fromString('50554d6e-29bb-11e5-b345-feff819cdc9f');

// Values of each type.
const VALUES = {
  ascii: ['', 'a'],
  bigint: ['9223372036854775807', '-1'].map((text) => Long.fromString(text)),
  blob: [Buffer.alloc(0), Buffer.from('00ff', 'hex')],
  boolean: [true, false],
  date: ['2026-11-26', '1969-12-31'].map((text) => LocalDate.fromString(text)),
  decimal: ['0', '-1.50', '12345678901234567890.123'].map((text) => BigDecimal.fromString(text)),
  double: [-1.5, 1e300, Infinity],
  duration: ['1mo2d3h', '-5ms'].map((text) => Duration.fromString(text)),
  float: [-1.5, 3.25],
  inet: ['127.0.0.1', '2001:db8::ff'].map((text) => InetAddress.fromString(text)),
  int: [2147483647, -2147483648],
  smallint: [32767, -32768],
  text: ['', "it's", 'ünï'],
  time: ['23:59:59.999999999', '00:00:00'].map((text) => LocalTime.fromString(text)),
  timestamp: [new Date(0), new Date('2026-11-26T10:00:00.123Z')],
  timeuuid: [timeuuid],
  tinyint: [127, -128],
  uuid: [uuid],
  varint: ['-1', '170141183460469231731687303715884105728'].map((text) => Integer.fromString(text)),
  'list<int>': [[3, 1, 3]],
  'set<text>': [['a', 'b']],
  'map<text, frozen<list<int>>>': [{ a: [1], b: [2] }],
  'frozen<map<text, int>>': [{}, { x: 1 }],
  'tuple<int, text>': [new types.Tuple(7, 'x'), new types.Tuple(7, null)],
  'frozen<point>': [{ x: 1, name: 'p' }, { x: null, name: null }],
  point: [{ x: 2, name: null }],
};

async function main(port) {
  const client = new Client({
    contactPoints: [`127.0.0.1:${port}`],
    localDataCenter: 'datacenter1',
  });
  await client.connect();
  const run = (query, values) => client.execute(query, values, { prepare: true });
  await client.execute("CREATE KEYSPACE types WITH replication = {'class': 'SimpleStrategy'}");
  await client.execute('USE types');
  await client.execute('CREATE TYPE point (x int, name text)');
  let number = 0;
  for (const [type, values] of Object.entries(VALUES)) {
    number += 1;
    const table = `types.t${number}`;
    await client.execute(`CREATE TABLE ${table} (k int PRIMARY KEY, v ${type})`);
    for (const value of [...values, null]) {
      await run(`INSERT INTO ${table} (k, v) VALUES (1, ?)`, [value]);
      const row = (await run(`SELECT v FROM ${table} WHERE k = 1`, [])).first();
      // Objects of user-defined types have no prototype of ours.
      const plain = (of) => JSON.stringify(of, (_, part) => (part instanceof Map ? [...part] : part));
      assert.strictEqual(plain(row.v), plain(value), type);
    }
  }
  await client.execute('CREATE TABLE types.c (k int PRIMARY KEY, n counter)');
  await run('UPDATE types.c SET n = n + ? WHERE k = 1', [Long.fromNumber(5)]);
  await run('UPDATE types.c SET n = n - ? WHERE k = 1', [Long.fromNumber(2)]);
  const counter = (await run('SELECT n FROM types.c WHERE k = 1', [])).first();
  assert.strictEqual(counter.n.toNumber(), 3);
  await client.shutdown();
}

main(process.argv[2]).catch((error) => {
  console.error(error);
  process.exit(1);
});
