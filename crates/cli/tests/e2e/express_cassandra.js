// Models of express-cassandra over every type, their queries and batches: node express_cassandra.js PORT
'use strict';

const assert = require('node:assert');
const models = require('express-cassandra');

const { BigDecimal, InetAddress, Integer, LocalDate, LocalTime, Long, TimeUuid, Tuple, Uuid } =
  models.driver.types;

// A value and another one of each type.
const VALUES = {
  ascii: ['a', 'b'],
  bigint: ['9223372036854775807', '-1'].map((text) => Long.fromString(text)),
  blob: [Buffer.alloc(0), Buffer.from('00ff', 'hex')],
  boolean: [true, false],
  date: ['2026-11-26', '1969-12-31'].map((text) => LocalDate.fromString(text)),
  decimal: ['-1.50', '12345678901234567890.123'].map((text) => BigDecimal.fromString(text)),
  double: [-1.5, 1e300],
  float: [-1.5, 3.25],
  inet: ['127.0.0.1', '2001:db8::ff'].map((text) => InetAddress.fromString(text)),
  int: [2147483647, -2147483648],
  smallint: [32767, -32768],
  text: ["it's", 'ünï'],
  time: ['23:59:59.999999999', '00:00:00'].map((text) => LocalTime.fromString(text)),
  timestamp: [new Date(0), new Date('2026-11-26T10:00:00.123Z')],
  timeuuid: [TimeUuid.fromString('50554d6e-29bb-11e5-b345-feff819cdc9f'), TimeUuid.now()],
  tinyint: [127, -128],
  uuid: [Uuid.random(), Uuid.random()],
  varint: ['-1', '170141183460469231731687303715884105728'].map((text) => Integer.fromString(text)),
};

// Types that have parts.
const COMPOSITES = {
  numbers: ['list', '<int>', [3, 1, 3]],
  tags: ['set', '<text>', ['a', 'b']],
  scores: ['map', '<text, int>', { a: 1, b: 2 }],
  lists: ['map', '<text, frozen<list<int>>>', { a: [1], b: [2, 3] }],
  place: ['frozen', '<place>', { x: 1, name: 'p' }],
  places: ['list', '<frozen<place>>', [{ x: 1, name: 'p' }, { x: 2, name: null }]],
};

const plain = (value) => JSON.parse(JSON.stringify(value));

async function valuesComeBack(Everything) {
  const row = {};
  for (const [type, values] of Object.entries(VALUES)) row[`v_${type}`] = values[0];
  for (const [name, [, , value]] of Object.entries(COMPOSITES)) row[name] = value;
  await new Everything({ id: 1, c: 1, shared: 's', ...row }).saveAsync();
  const found = await Everything.findOneAsync({ id: 1, c: 1 });
  for (const [name, value] of Object.entries(row)) {
    assert.deepStrictEqual(plain(found[name]), plain(value), name);
  }
  for (const [type, values] of Object.entries(VALUES)) found[`v_${type}`] = values[1];
  found.numbers = [7];
  await found.saveAsync();
  const again = await Everything.findOneAsync({ id: 1, c: 1 });
  for (const [type, values] of Object.entries(VALUES)) {
    assert.deepStrictEqual(plain(again[`v_${type}`]), plain(values[1]), type);
  }
  assert.deepStrictEqual([again.numbers, again.shared], [[7], 's']);
  const empty = Object.fromEntries(Object.keys(row).map((name) => [name, null]));
  await Everything.updateAsync({ id: 1, c: 1 }, empty);
  const bare = await Everything.findOneAsync({ id: 1, c: 1 }, { raw: true });
  for (const name of Object.keys(row)) assert.ok(!bare[name], name);
}

async function collectionsChange(Everything) {
  const key = { id: 2, c: 1 };
  await new Everything({ ...key, numbers: [1], tags: ['a'], scores: { a: 1 } }).saveAsync();
  await Everything.updateAsync(key, {
    numbers: { $append: [2] },
    tags: { $add: ['b'] },
    scores: { $add: { b: 2 } },
  });
  await Everything.updateAsync(key, {
    numbers: { $prepend: [0] },
    tags: { $remove: ['a'] },
    scores: { $remove: { a: '' } },
  });
  await Everything.updateAsync(key, { scores: { $replace: { b: 5 } } });
  await Everything.updateAsync(key, { numbers: { $replace: [1, 9] } });
  const found = await Everything.findOneAsync(key);
  assert.deepStrictEqual(found.numbers, [0, 9, 2]);
  assert.deepStrictEqual(found.tags, ['b']);
  assert.deepStrictEqual(plain(found.scores), { b: 5 });
}

async function queriesFindRows(Everything) {
  for (let c = 0; c < 20; c += 1) {
    await new Everything({ id: 3, c, v_int: 100 + (c % 2), v_text: `t${c}` }).saveAsync();
  }
  const of = async (query, options) =>
    (await Everything.findAsync(query, { raw: true, ...options })).map((row) => row.c);
  assert.deepStrictEqual(await of({ id: 3, $limit: 3 }), [19, 18, 17]);
  assert.deepStrictEqual(await of({ id: 3, $orderby: { $asc: 'c' }, $limit: 2 }), [0, 1]);
  assert.deepStrictEqual(await of({ id: 3, c: { $gte: 5, $lt: 8 } }), [7, 6, 5]);
  assert.deepStrictEqual(await of({ id: 3, c: { $in: [1, 3] } }), [3, 1]);
  assert.deepStrictEqual(await of({ v_int: 101 }), [19, 17, 15, 13, 11, 9, 7, 5, 3, 1]);
  const filtered = { id: 3, v_text: 't4' };
  assert.deepStrictEqual(await of(filtered, { allow_filtering: true }), [4]);
  const ids = await Everything.findAsync({}, { raw: true, select: ['id'], distinct: true });
  assert.deepStrictEqual(ids.map((row) => row.id).sort(), [1, 2, 3]);
  const token = await Everything.findAsync({ $token: { id: { $gte: -1e18 } } }, { raw: true });
  assert.ok(token.length <= 22);
  const counted = await Everything.findAsync({ id: 3 }, { raw: true, select: ['count(id) as n'] });
  assert.strictEqual(counted[0].n.toNumber(), 20);

  // Pages.
  let rows = 0;
  await new Promise((resolve, reject) => {
    const each = () => { rows += 1; };
    Everything.eachRow({ id: 3 }, { fetchSize: 3, raw: true }, (n, row) => each(row), (error, result) => {
      if (error) reject(error);
      else if (result.nextPage) result.nextPage();
      else resolve();
    });
  });
  assert.strictEqual(rows, 20);
  await Everything.deleteAsync({ id: 3, c: 4 });
  assert.strictEqual(await Everything.findOneAsync({ id: 3, c: 4 }), undefined);
}

async function conditionsHold(Session) {
  const first = new Session({ token: 't', owner: 'a' });
  const applied = (result) => result.rows[0]['[applied]'];
  assert.ok(applied(await first.saveAsync({ if_not_exist: true })));
  const second = new Session({ token: 't', owner: 'b' });
  assert.ok(!applied(await second.saveAsync({ if_not_exist: true })));
  const change = (owner, conditions) =>
    Session.updateAsync({ token: 't' }, { owner }, { conditions });
  assert.ok(applied(await change('c', { owner: 'a' })));
  assert.ok(!applied(await change('d', { owner: 'a' })));
  assert.ok(!applied(await Session.updateAsync({ token: 'x' }, { owner: 'd' }, { if_exists: true })));
  assert.strictEqual((await Session.findOneAsync({ token: 't' })).owner, 'c');
}

async function valuesExpire(Session) {
  // Five seconds suffice for the reads before the end, also on a busy machine.
  await new Session({ token: 'short', owner: 'a' }).saveAsync({ ttl: 5 });
  await new Session({ token: 'long', owner: 'a' }).saveAsync();
  await Session.updateAsync({ token: 'long' }, { owner: 'b' }, { ttl: 5 });
  assert.strictEqual((await Session.findOneAsync({ token: 'short' })).owner, 'a');
  const until = Date.now() + 30000;
  while ((await Session.findOneAsync({ token: 'short' })) !== undefined
    || (await Session.findOneAsync({ token: 'long' }, { raw: true })).owner !== null) {
    assert.ok(Date.now() < until, 'the values do not expire');
    await new Promise((resolve) => { setTimeout(resolve, 100); });
  }
}

async function batchesAreApplied(Session) {
  const queries = ['a', 'b', 'c'].map(
    (token) => new Session({ token, owner: token }).save({ return_query: true }),
  );
  queries.push(Session.update({ token: 'a' }, { owner: 'z' }, { return_query: true }));
  queries.push(Session.delete({ token: 'b' }, { return_query: true }));
  await models.doBatchAsync(queries);
  assert.strictEqual((await Session.findOneAsync({ token: 'a' })).owner, 'z');
  assert.strictEqual(await Session.findOneAsync({ token: 'b' }), undefined);
}

async function countersCount(Hits) {
  await Hits.updateAsync({ page: 'p' }, { count: Long.fromNumber(5) });
  await Hits.updateAsync({ page: 'p' }, { count: Long.fromNumber(-2) });
  assert.strictEqual((await Hits.findOneAsync({ page: 'p' })).count.toNumber(), 3);
}

async function main(port) {
  const clientOptions = {
    contactPoints: ['127.0.0.1'],
    localDataCenter: 'datacenter1',
    protocolOptions: { port: Number(port) },
    keyspace: 'express',
    queryOptions: { prepare: true },
  };
  const ormOptions = {
    defaultReplicationStrategy: { class: 'SimpleStrategy', replication_factor: 1 },
    migration: 'alter',
    disableTTYConfirmation: true,
    udts: { place: { x: 'int', name: 'text' } },
  };
  const connection = models.createClient({ clientOptions, ormOptions });
  models.doBatchAsync = connection.doBatchAsync.bind(connection);
  await connection.initAsync();
  const fields = { id: 'int', c: 'int', shared: { type: 'text', static: true } };
  for (const type of Object.keys(VALUES)) fields[`v_${type}`] = type;
  for (const [name, [type, typeDef]] of Object.entries(COMPOSITES)) fields[name] = { type, typeDef };
  const add = async (name, schema) => {
    const Model = connection.loadSchema(name, schema);
    await Model.syncDBAsync();
    return Model;
  };
  const Everything = await add('everything', {
    fields,
    key: [['id'], 'c'],
    clustering_order: { c: 'desc' },
    indexes: ['v_int'],
  });
  const session = { fields: { token: 'text', owner: 'text' }, key: ['token'] };
  const Session = await add('session', session);
  const Hits = await add('hits', { fields: { page: 'text', count: 'counter' }, key: ['page'] });
  await valuesComeBack(Everything);
  await collectionsChange(Everything);
  await queriesFindRows(Everything);
  await conditionsHold(Session);
  await valuesExpire(Session);
  await batchesAreApplied(Session);
  await countersCount(Hits);

  // A model with another column changes its table.
  const Wider = await add('session', {
    fields: { ...session.fields, seen: 'timestamp' },
    key: ['token'],
  });
  await new Wider({ token: 'seen', seen: new Date(0) }).saveAsync();
  assert.strictEqual((await Wider.findOneAsync({ token: 'seen' })).seen.getTime(), 0);
  const view = await add('by_owner', {
    fields: session.fields,
    key: ['token'],
    materialized_views: {
      owners: { select: ['token', 'owner'], key: ['owner', 'token'] },
    },
  });
  await new view({ token: 'x', owner: 'o' }).saveAsync();
  const found = await view.findOneAsync({ owner: 'o' }, { materialized_view: 'owners' });
  assert.strictEqual(found.token, 'x');
  await connection.closeAsync();
}

main(process.argv[2]).then(() => process.exit(0), (error) => {
  console.error(error);
  process.exit(1);
});
