"""What the driver's default retry policy does with a refusal (0x1001), as docs/overload.md says."""

from cassandra import ConsistencyLevel
from cassandra.cluster import ExecutionProfile
from cassandra.policies import RetryPolicy
from cassandra.protocol import OverloadedErrorMessage

policy = ExecutionProfile().retry_policy
assert type(policy) is RetryPolicy, policy
refusal = OverloadedErrorMessage(0x1001, "overloaded", None)
decision, _ = policy.on_request_error(None, ConsistencyLevel.ONE, error=refusal, retry_num=0)
assert decision == RetryPolicy.RETRY_NEXT_HOST, decision
