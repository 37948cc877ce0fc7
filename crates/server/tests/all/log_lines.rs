//! Lines of the server's log.

use crate::support::toy::Toy;
use crate::support::{RESULT, Running};

/// Number of statements that fail. The rate allows ten lines at once, and one more each second.
const FAULTS: usize = 200;

/// Each statement on a damaged file fails by the server's fault: the log must not become the load.
#[test]
fn faults_are_logged_at_a_limited_rate() {
    let (server, log) = Running::logged(Toy::default());
    let mut client = server.client(4);
    for _ in 0..FAULTS {
        client.query(1, "panic");
        client.receive().assert_error(0, "the server failed");
    }
    let lines = log.lines("a statement failed by the server's fault");
    assert!((10..=FAULTS / 2).contains(&lines.len()), "{}", lines.len());
    client.query(2, "whoami");
    assert_eq!(client.receive().opcode, RESULT);
}
