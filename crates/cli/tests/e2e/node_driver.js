// What an application does with the stock Node driver: node node_driver.js PORT
'use strict';

const assert = require('node:assert');
const cassandra = require('cassandra-driver');

async function main(port) {
  const client = new cassandra.Client({
    contactPoints: [`127.0.0.1:${port}`],
    localDataCenter: 'datacenter1',
  });
  await client.connect();
  const run = (query, values, options) =>
    client.execute(query, values, { prepare: true, ...options });

  await client.execute(
    "CREATE KEYSPACE node WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
  );
  await client.execute(
    'CREATE TABLE node.events (room text, at bigint, body text, seen boolean, PRIMARY KEY (room, at))' +
      ' WITH CLUSTERING ORDER BY (at DESC)',
  );

  // Prepare and execute, by position and by name.
  const insert = 'INSERT INTO node.events (room, at, body, seen) VALUES (?, ?, ?, ?)';
  await run(insert, ['lobby', 1, 'hello', true]);
  const named = 'INSERT INTO node.events (room, at, body, seen) VALUES (:room, :at, :body, :seen)';
  await run(named, { room: 'lobby', at: 2, body: 'ünï', seen: null });
  const lobby = await run('SELECT at, body, seen FROM node.events WHERE room = ?', ['lobby']);
  assert.deepStrictEqual(
    lobby.rows.map((row) => [row.at.toNumber(), row.body, row.seen]),
    [
      [2, 'ünï', null],
      [1, 'hello', true],
    ],
  );

  // Batches, then pages.
  for (let start = 0; start < 1200; start += 100) {
    const queries = [];
    for (let at = start; at < start + 100; at += 1) {
      queries.push({ query: insert, params: ['hall', at, `message ${at}`, false] });
    }
    await client.batch(queries, { prepare: true });
  }
  const first = await run('SELECT at FROM node.events WHERE room = ?', ['hall'], { fetchSize: 100 });
  assert.strictEqual(first.rows.length, 100);
  assert.ok(first.pageState);
  const seen = [];
  const all = await run('SELECT at FROM node.events WHERE room = ?', ['hall'], { fetchSize: 100 });
  for await (const row of all) {
    seen.push(row.at.toNumber());
  }
  assert.deepStrictEqual(seen, Array.from({ length: 1200 }, (_, n) => 1199 - n));

  // A transaction with values.
  const transaction =
    "BEGIN TRANSACTION LET e = (SELECT seen FROM node.events WHERE room = 'hall' AND at = 7);" +
    ' IF e.seen = false THEN' +
    " UPDATE node.events SET seen = ?, body = ? WHERE room = 'hall' AND at = 7;" +
    ' END IF COMMIT TRANSACTION';
  assert.strictEqual((await run(transaction, [true, 'read'])).wasApplied(), true);
  assert.strictEqual((await run(transaction, [true, 'again'])).wasApplied(), false);
  const read = await client.execute(
    "SELECT body FROM node.events WHERE room = 'hall' AND at = 7",
  );
  assert.strictEqual(read.first().body, 'read');

  // Errors have codes.
  const { syntaxError, invalid } = cassandra.types.responseErrorCodes;
  await assert.rejects(client.execute('SELEC 1'), { code: syntaxError });
  await assert.rejects(client.execute('SELECT * FROM node.nothing'), { code: invalid });

  // The schema is found.
  const table = await client.metadata.getTable('node', 'events');
  assert.deepStrictEqual(table.clusteringKeys.map((key) => key.name), ['at']);
  await client.shutdown();
}

main(process.argv[2]).catch((error) => {
  console.error(error);
  process.exit(1);
});
