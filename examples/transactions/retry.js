// Transactions over several statements with the Node driver, run again after a conflict.
//
// The statements of the body name the transaction by USING TRANSACTION. They may go through any server
// of the database.
'use strict';

const { types } = require('cassandra-driver');

const RUN_AGAIN = 'aborted, run the transaction again: ';

// Whether the transaction had no effect and may succeed if it is run again. The driver drops the payload of
// errors (carnet.error = aborted); the begin of the message says the same, and does not change.
function endedWithoutEffect(error) {
  return error.code === types.responseErrorCodes.invalid && error.message.includes(RUN_AGAIN);
}

// Runs `await body(transaction)` and commits; runs it again if the transaction ended without effect.
// An error after which the outcome of the commit is unknown is thrown: ask
// SELECT outcome(transaction) before trying again.
async function runTransaction(client, body, attempts = 20) {
  for (let attempt = 0; ; attempt += 1) {
    const started = await client.execute('START DETACHED TRANSACTION');
    const { transaction } = started.first();
    try {
      const result = await body(transaction);
      await client.execute(`COMMIT TRANSACTION ${transaction}`);
      return result;
    } catch (error) {
      // Without effect after a commit; if it cannot be sent, the transaction expires.
      await client.execute(`ROLLBACK TRANSACTION ${transaction}`).catch(() => {});
      if (!endedWithoutEffect(error) || attempt + 1 === attempts) throw error;
    }
    // Two transactions that conflict wait for different times.
    const wait = Math.random() * 5 * 2 ** Math.min(attempt, 6);
    await new Promise((resolve) => setTimeout(resolve, wait));
  }
}

module.exports = { runTransaction, endedWithoutEffect };
