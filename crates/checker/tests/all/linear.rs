//! Regression tests: histories that once took quadratic time take linear time.

use std::time::{Duration, Instant};

use carnet_checker::{History, Model, Moment, Op, Options, Outcome, Report, Transaction, check};

/// Far more than an unoptimized build needs on a busy machine.
const LONGEST: Duration = Duration::from_secs(5);

fn transaction(process: i64, span: (i64, i64), ops: Vec<Op>) -> Transaction {
    let at = |index: i64| Moment { index: index.unsigned_abs(), nanos: 0 };
    let (invoked, completed) = (at(span.0), Some(at(span.1)));
    Transaction { process, invoked, completed, outcome: Outcome::Committed, ops }
}

#[expect(clippy::disallowed_methods, reason = "the test measures time")]
fn judge(transactions: Vec<Transaction>) -> Report {
    let history = History::new(transactions).unwrap();
    let begin = Instant::now();
    let report = check(&history, &Options::default()).unwrap();
    let took = begin.elapsed();
    assert!(took < LONGEST, "{took:?}");
    report
}

#[test]
fn many_reads_that_lack_own_appends_take_linear_time() {
    let append = |element| Op::Append { key: 1.into(), element };
    let read = || Op::ReadList { key: 1.into(), list: Vec::new() };
    let ops = (0..40_000).flat_map(|element| [append(element), read()]).collect();
    let report = judge(vec![transaction(0, (0, 1), ops)]);
    assert!(!report.allows(Model::SnapshotIsolation));
}

#[test]
fn many_concurrent_readers_take_linear_time() {
    const COUNT: i64 = 40_000;
    let write = |value| vec![Op::Write { key: 1.into(), value }];
    let read = |value| vec![Op::ReadRegister { key: 1.into(), value: Some(value) }];
    let mut all = vec![transaction(-1, (0, 1), write(1)), transaction(-2, (2, 3), write(2))];
    // All readers of the old version are answered before the readers of the new one are invoked.
    for n in 0..COUNT {
        all.push(transaction(n, (10 + n, 10 + COUNT + n), read(1)));
        let late = 10 + 2 * COUNT + n;
        all.push(transaction(n, (late, late + COUNT), read(2)));
    }
    let report = judge(all);
    assert!(report.allows(Model::Serializable) && !report.allows(Model::StrictSerializable));
}
