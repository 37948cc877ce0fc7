// Asks for another handshake on an open connection: node renegotiate.js PORT DIR
'use strict';

const assert = require('node:assert');
const fs = require('node:fs');
const path = require('node:path');
const tls = require('node:tls');

function options(port, directory) {
  const read = (name) => fs.readFileSync(path.join(directory, name));
  return {
    host: '127.0.0.1',
    port,
    ca: [read('ca.crt')],
    cert: read('client.crt'),
    key: read('client.key'),
    maxVersion: 'TLSv1.2',
  };
}

function connect(settings) {
  return new Promise((resolve, reject) => {
    const socket = tls.connect(settings, () => resolve(socket));
    socket.once('error', reject);
  });
}

async function main(port, directory) {
  const settings = options(Number(port), directory);
  const socket = await connect(settings);
  const refused = await new Promise((resolve) => {
    socket.removeAllListeners('error');
    socket.once('error', resolve);
    socket.once('close', () => resolve('closed'));
    socket.renegotiate({}, (error) => resolve(error));
    setTimeout(() => resolve(null), 10000).unref();
  });
  assert.ok(refused, 'the server began another handshake, or waits');
  socket.destroy();
  (await connect(settings)).destroy();
}

main(process.argv[2], process.argv[3]).catch((error) => {
  console.error(error);
  process.exit(1);
});
