// Increments of one row by many transactions that stay open: node open_transactions.js PORT FOLDER
'use strict';

const assert = require('node:assert');
const path = require('node:path');
const cassandra = require('cassandra-driver');

const { runTransaction } = require(path.join(process.argv[3], 'retry.js'));

async function main(port) {
  const client = new cassandra.Client({
    contactPoints: [`127.0.0.1:${port}`],
    localDataCenter: 'datacenter1',
  });
  await client.connect();
  const run = (query, values) => client.execute(query, values, { prepare: true });
  await client.execute(
    "CREATE KEYSPACE node_tx WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
  );
  await client.execute('CREATE TABLE node_tx.t (k int PRIMARY KEY, v int)');
  await client.execute('INSERT INTO node_tx.t (k, v) VALUES (1, 0)');
  const increment = () =>
    runTransaction(
      client,
      async (transaction) => {
        const read = 'SELECT v FROM node_tx.t WHERE k = 1 USING TRANSACTION ?';
        const { v } = (await run(read, [transaction])).first();
        const write = 'UPDATE node_tx.t USING TRANSACTION ? SET v = ? WHERE k = 1';
        await run(write, [transaction, v + 1]);
      },
      50,
    );
  for (let round = 0; round < 5; round += 1) {
    await Promise.all(Array.from({ length: 6 }, increment));
  }
  const found = await client.execute('SELECT v FROM node_tx.t');
  assert.strictEqual(found.first().v, 30);
  await client.shutdown();
}

main(process.argv[2]).catch((error) => {
  console.error(error);
  process.exit(1);
});
