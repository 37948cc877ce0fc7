// Statements that the server evicted are prepared again, unseen: node prepare_again.js PORT
'use strict';

const assert = require('node:assert');
const cassandra = require('cassandra-driver');

const STATEMENTS = 30;

async function main(port) {
  const client = new cassandra.Client({
    contactPoints: [`127.0.0.1:${port}`],
    localDataCenter: 'datacenter1',
  });
  await client.connect();
  const run = (query, values) => client.execute(query, values, { prepare: true });
  await client.execute(
    "CREATE KEYSPACE again WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
  );
  await client.execute('CREATE TABLE again.t (k int PRIMARY KEY, v int)');
  for (let turn = 0; turn < 3; turn += 1) {
    await run('INSERT INTO again.t (k, v) VALUES (?, ?)', [1, turn]);
    for (let n = 0; n < STATEMENTS; n += 1) {
      const found = await run(`SELECT v, k AS n${n} FROM again.t WHERE k = ?`, [1]);
      assert.strictEqual(found.first().v, turn);
    }
  }
  await client.shutdown();
}

main(process.argv[2]).catch((error) => {
  console.error(error);
  process.exit(1);
});
