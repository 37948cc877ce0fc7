// What the driver's default retry policy does with a refusal (0x1001), as docs/overload.md says.

const assert = require('node:assert');
const { errors, policies } = require('cassandra-driver');

const policy = policies.defaultRetryPolicy();
const refusal = new errors.ResponseError(0x1001, 'overloaded');
const { decision, useCurrentHost } = policy.onRequestError({ nbRetry: 0 }, 1, refusal);
assert.strictEqual(decision, policies.retry.RetryPolicy.retryDecision.retry);
assert.strictEqual(useCurrentHost, false);
