//! Anomalies by name: observations of clients, and the anomaly that the checker reports.

use carnet_checker::format::Format;
use carnet_checker::{AnomalyKind, Model, Options, Order, Report, check};

/// Judges a story with a line `process type operations` for each event.
fn judge(story: &str) -> Report {
    let event = |line: &str| {
        let mut words = line.trim().splitn(3, ' ');
        let mut word = || words.next().unwrap();
        let (process, kind, ops) = (word(), word(), word());
        format!("{{:process {process}, :type :{kind}, :f :txn, :value [{ops}]}}\n")
    };
    let edn: String = story.trim().lines().map(event).collect();
    check(&Format::Edn.read(&edn).unwrap(), &Options::default()).unwrap()
}

fn kinds(report: &Report) -> Vec<AnomalyKind> {
    report.counts().keys().copied().collect()
}

#[test]
fn lost_acknowledged_append() {
    let report = judge(
        "0 invoke [:append :x 1]
         0 ok [:append :x 1]
         1 invoke [:r :x nil]
         1 ok [:r :x []]",
    );
    assert_eq!(kinds(&report), [AnomalyKind::GSingle(Order::RealTime)]);
    assert!(report.allows(Model::StrongSessionSerializable));
}

#[test]
fn unseen_appends_to_the_same_version() {
    let report = judge(
        "0 invoke [:r 7 nil] [:append 7 1]
         1 invoke [:r 7 nil] [:append 7 2]
         0 ok [:r 7 []] [:append 7 1]
         1 ok [:r 7 []] [:append 7 2]",
    );
    assert!(kinds(&report).contains(&AnomalyKind::LostUpdate));
    assert!(report.allows(Model::ReadCommitted) && !report.allows(Model::SnapshotIsolation));
}

#[test]
fn unknown_append_may_be_missing() {
    let story = "0 invoke [:append 7 1] [:append 8 2]
         0 info [:append 7 1] [:append 8 2]
         1 invoke [:r 7 nil]
         1 ok [:r 7 []]";
    assert!(judge(story).is_strictly_serializable());
    // It may take effect late: after the client's next transaction, and after later ones.
    let late = "1 invoke [:r 7 nil]
         1 ok [:r 7 [1]]";
    assert!(judge(&format!("{story}\n{late}")).is_strictly_serializable());
    let same_client = "0 invoke [:r 7 nil]
         0 ok [:r 7 []]";
    assert!(judge(&format!("{story}\n{same_client}\n{late}")).is_strictly_serializable());
    // But it may not take effect partially.
    let part = "1 invoke [:r 7 nil] [:r 8 nil]
         1 ok [:r 7 [1]] [:r 8 []]";
    let report = judge(&format!("{story}\n{part}"));
    assert_eq!(kinds(&report), [AnomalyKind::GSingle(Order::Any)]);
}

#[test]
fn a_register_that_goes_back_in_time() {
    let report = judge(
        "0 invoke [:w 7 1]
         0 ok [:w 7 1]
         0 invoke [:w 7 2]
         0 ok [:w 7 2]
         1 invoke [:r 7 nil]
         1 ok [:r 7 1]",
    );
    // Only real time implies that 1 came before 2, and then that 2 came before 1.
    assert_eq!(kinds(&report), [AnomalyKind::G0(Order::RealTime)]);
    assert!(report.allows(Model::StrongSessionSerializable));
    assert!(!report.allows(Model::StrongSnapshotIsolation));
}

#[test]
fn linearizable_keys_make_real_time_count_everywhere() {
    let edn = "{:process 0, :type :invoke, :value [[:w 7 1]]}
        {:process 0, :type :ok, :value [[:w 7 1]]}
        {:process 1, :type :invoke, :value [[:w 7 2] [:w 8 3]]}
        {:process 2, :type :invoke, :value [[:r 7 nil] [:r 8 nil]]}
        {:process 1, :type :ok, :value [[:w 7 2] [:w 8 3]]}
        {:process 2, :type :ok, :value [[:r 7 1] [:r 8 3]]}";
    let history = Format::Edn.read(edn).unwrap();
    let report = check(&history, &Options::default()).unwrap();
    assert!(report.allows(Model::Serializable));
    // T2 saw T1's 8, but the version of 7 before T1's write.
    assert_eq!(kinds(&report), [AnomalyKind::GSingle(Order::RealTime)]);
    let report = check(&history, &Options { linearizable_keys: true }).unwrap();
    assert_eq!(report.counterexample(Model::SnapshotIsolation).unwrap().transactions.len(), 2);
}

#[test]
fn stale_read_of_nil_is_a_version_cycle() {
    let keys = Options { linearizable_keys: true };
    let write = "{:process 0, :type :invoke, :value [[:w 1 1]]}
        {:process 0, :type :ok, :value [[:w 1 1]]}";
    let read = |value: &str| {
        format!(
            "{{:process 1, :type :invoke, :value [[:r 1 nil]]}}
             {{:process 1, :type :ok, :value [[:r 1 {value}]]}}"
        )
    };
    let judge = |events: &[&str]| {
        let history = Format::Edn.read(&events.concat()).unwrap();
        let without = check(&history, &Options::default()).unwrap();
        (without, check(&history, &keys).unwrap())
    };
    for events in [&[write, &read("nil")][..], &[write, &read("1"), &read("nil")]] {
        let (without, report) = judge(events);
        assert!(without.allows(Model::Serializable) && !without.is_strictly_serializable());
        assert!(kinds(&report).contains(&AnomalyKind::CyclicVersions));
        assert!(!report.allows(Model::ReadCommitted));
    }
    let (_, report) = judge(&[&read("nil"), write, &read("1")]);
    assert_eq!(kinds(&report), []);
    // A return to an earlier written version is a cycle of writes.
    let second = write.replace("[[:w 1 1]]", "[[:w 1 2]]");
    let (_, report) = judge(&[write, &second, &read("1")]);
    assert!(!report.allows(Model::ReadCommitted));
}

#[test]
fn own_read_must_be_a_prefix() {
    let story = |own: &str, last: &str| {
        judge(&format!(
            "0 invoke [:append 1 1]
             1 invoke [:append 1 2] [:r 1 nil]
             0 ok [:append 1 1]
             1 ok [:append 1 2] [:r 1 [{own}]]
             2 invoke [:r 1 nil]
             2 ok [:r 1 [{last}]]"
        ))
    };
    let report = story("2", "1 2");
    assert!(kinds(&report).contains(&AnomalyKind::IncompatibleOrder));
    assert!(!report.allows(Model::ReadCommitted));
    for (own, last) in [("2", "2 1"), ("1 2", "1 2")] {
        assert!(story(own, last).is_strictly_serializable(), "{own}, {last}");
    }
    // Two such reads contradict each other without a third.
    let report = judge(
        "0 invoke [:append 1 1] [:r 1 nil]
         1 invoke [:append 1 2] [:r 1 nil]
         0 ok [:append 1 1] [:r 1 [1]]
         1 ok [:append 1 2] [:r 1 [2]]",
    );
    assert!(!report.allows(Model::ReadCommitted));
}

#[test]
fn mutually_unseen_writers_interfere() {
    let story = |write: &str, nil: &str, key: &str| {
        let (first, second) = (format!("[:{write} {key} 1]"), format!("[:{write} 7 2]"));
        judge(&format!(
            "0 invoke {first} [:{write} 8 1] [:r 9 nil]
             1 invoke {second} [:{write} 9 2] [:r 8 nil]
             0 ok {first} [:{write} 8 1] [:r 9 {nil}]
             1 ok {second} [:{write} 9 2] [:r 8 {nil}]"
        ))
    };
    for (write, nil) in [("append", "[]"), ("w", "nil")] {
        // Neither saw the other; no read shows whose write to 7 came first.
        let report = story(write, nil, "7");
        assert!(kinds(&report).contains(&AnomalyKind::GSIa(Order::Any)), "{report:?}");
        assert!(!report.allows(Model::SnapshotIsolation) && report.allows(Model::ReadCommitted));
        // Without a common object it is write skew.
        let report = story(write, nil, "6");
        assert_eq!(kinds(&report), [AnomalyKind::G2Item(Order::Any)]);
    }
}

#[test]
fn interference_across_others_is_told_in_words() {
    let edn = "{:type :ok, :value [[:append 1 1] [:append 2 1] [:r 3 []]]}
        {:type :ok, :value [[:append 3 2] [:append 4 2]]}
        {:type :ok, :value [[:append 1 3] [:r 4 [2]] [:r 2 []]]}";
    let history = Format::Edn.read(edn).unwrap();
    let report = check(&history, &Options::default()).unwrap();
    let anomaly = report.counterexample(Model::SnapshotIsolation).unwrap();
    assert_eq!(anomaly.transactions, [0, 2]);
    assert_eq!(
        anomaly.reasons,
        [
            "T0 comes before T1, because T0 read 3 as [], which lacks 2, appended by T1 (which no \
             read of it shows, so it comes after all reads)",
            "T1 comes before T2, because T2 read 4 as [2], whose 2 T1 appended",
            "T2 comes before T0, because T2 read 2 as [], which lacks 1, appended by T0 (which no \
             read of it shows, so it comes after all reads)",
            "so neither T0 nor T2 saw the other, but both wrote 1: one snapshot should have held \
             the other's write"
        ]
    );
}

#[test]
fn reads_that_no_order_explains() {
    let read = |a: &str, b: &str| {
        let writes = "0 invoke [:append 7 1]\n0 ok [:append 7 1]\n\
                      1 invoke [:append 7 2]\n1 ok [:append 7 2]";
        let reads = format!("2 invoke [:r 7 nil]\n2 ok [:r 7 [{a}]]\n");
        kinds(&judge(&format!("{writes}\n{reads}{}", reads.replace(a, b))))
    };
    assert_eq!(read("1 2", "2 1"), [AnomalyKind::IncompatibleOrder]);
    assert!(read("1 2", "1 2 1").contains(&AnomalyKind::DuplicateElements));
    assert_eq!(read("1 2", "1 2 9"), [AnomalyKind::GarbageRead]);
    assert_eq!(read("1 2", "1 2"), []);
    let own = judge("0 invoke [:r 7 nil] [:append 7 1]\n0 ok [:r 7 [1]] [:append 7 1]");
    assert_eq!(kinds(&own), [AnomalyKind::FutureRead]);
}

#[test]
fn aborted_and_intermediate_reads() {
    let aborted = judge(
        "0 invoke [:w 7 1]
         0 fail [:w 7 1]
         1 invoke [:r 7 nil]
         1 ok [:r 7 1]",
    );
    assert_eq!(kinds(&aborted), [AnomalyKind::G1a]);
    let intermediate = judge(
        "0 invoke [:w 7 1] [:w 7 2]
         1 invoke [:r 7 nil]
         0 ok [:w 7 1] [:w 7 2]
         1 ok [:r 7 1]",
    );
    assert_eq!(kinds(&intermediate), [AnomalyKind::G1b]);
}

#[test]
fn a_value_written_twice_cannot_be_judged() {
    let edn = "{:type :ok, :value [[:w 1 1]]} {:type :ok, :value [[:w 1 1]]}";
    let history = Format::Edn.read(edn).unwrap();
    let message = check(&history, &Options::default()).unwrap_err().to_string();
    assert!(message.contains("unique"), "{message}");
}
