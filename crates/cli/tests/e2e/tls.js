// Connects over TLS with the stock Node driver: node tls.js PORT DIR
'use strict';

const assert = require('node:assert');
const fs = require('node:fs');
const path = require('node:path');
const cassandra = require('cassandra-driver');

async function main(port, directory) {
  const read = (name) => fs.readFileSync(path.join(directory, name));
  const options = {
    contactPoints: [`127.0.0.1:${port}`],
    localDataCenter: 'datacenter1',
    credentials: { username: 'ann', password: 'correct horse' },
  };
  const shown = { cert: read('client.crt'), key: read('client.key') };
  const verifies = { ca: [read('ca.crt')], rejectUnauthorized: true };

  const client = new cassandra.Client({ ...options, sslOptions: { ...verifies, ...shown } });
  await client.connect();
  const found = await client.execute('SELECT release_version FROM system.local');
  assert.strictEqual(found.rowLength, 1);
  await client.shutdown();

  for (const sslOptions of [undefined, verifies]) {
    const stranger = new cassandra.Client({ ...options, sslOptions });
    await assert.rejects(stranger.connect());
    await stranger.shutdown();
  }
}

main(process.argv[2], process.argv[3]).catch((error) => {
  console.error(error);
  process.exit(1);
});
