// A bulk load with the stock Node driver and its defaults: node bulk.js PORT ROWS
//
// As many requests are in flight as the driver takes for one connection.
'use strict';

const assert = require('node:assert');
const cassandra = require('cassandra-driver');

const IN_FLIGHT = 2048;

async function main(port, rows) {
  const client = new cassandra.Client({
    contactPoints: [`127.0.0.1:${port}`],
    localDataCenter: 'datacenter1',
  });
  await client.connect();
  await client.execute(
    "CREATE KEYSPACE bulk WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
  );
  await client.execute('CREATE TABLE bulk.t (k int PRIMARY KEY, v text)');
  let next = 0;
  const insert = async () => {
    while (next < rows) {
      const values = [next++, 'x'.repeat(100)];
      await client.execute('INSERT INTO bulk.t (k, v) VALUES (?, ?)', values, { prepare: true });
    }
  };
  await Promise.all(Array.from({ length: IN_FLIGHT }, insert));
  const found = await client.execute('SELECT count(*) AS count FROM bulk.t');
  assert.strictEqual(found.first().count.toNumber(), rows);
  await client.shutdown();
}

main(process.argv[2], Number(process.argv[3])).catch((error) => {
  console.error(error);
  process.exit(1);
});
