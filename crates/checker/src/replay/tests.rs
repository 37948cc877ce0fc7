use super::*;
use carnet_base::{Rng, SeededRng};

const STRICT: Level = Level::Serializable { real_time: true };
const SNAPSHOT: Level = Level::Snapshot { real_time: false };

fn point(key: &str, found: Option<Timestamp>) -> Read {
    Read::Point { key: key.into(), found }
}

/// A range of all keys from `from` on.
fn range(from: &str, found: &[(&str, Timestamp)]) -> Read {
    let found = found.iter().map(|(key, at)| (key.as_bytes().to_vec(), *at)).collect();
    Read::Range { from: from.into(), to: None, found }
}

/// Returns a transaction that was invoked and answered at the moment when it took effect.
fn committed(name: u64, snapshot: u64, commit: u64, reads: &[Read], writes: &[&str]) -> Committed {
    let write = |key: &&str| Write {
        key: key.trim_start_matches('-').into(),
        deletes: key.starts_with('-'),
    };
    let place = if commit == 0 { snapshot } else { commit };
    Committed {
        name,
        snapshot,
        commit: (commit > 0).then_some(commit),
        reads: reads.to_vec(),
        writes: writes.iter().map(write).collect(),
        overwrites: false,
        invoked: 10 * snapshot + 5,
        answered: Some(10 * place + 6),
    }
}

fn wrong(transactions: &[Committed], level: Level) -> (u64, String) {
    let wrong = replay(transactions, level).unwrap_err();
    (wrong.transaction, wrong.reason)
}

#[test]
fn a_right_run_passes() {
    let run = [
        committed(1, 0, 1, &[point("x", None)], &["x", "y"]),
        committed(2, 1, 3, &[point("x", Some(1))], &["-x"]),
        committed(3, 1, 0, &[range("", &[("x", 1), ("y", 1)])], &[]),
        committed(4, 3, 0, &[range("", &[("y", 1)]), point("x", None)], &[]),
        committed(5, 3, 4, &[point("x", None)], &["x"]),
    ];
    assert_eq!(replay(&run, STRICT), Ok(()));
}

#[test]
fn blind_overwrites_pass_where_they_may() {
    let first = committed(1, 0, 2, &[], &["x"]);
    let blind = committed(2, 1, 3, &[point("y", None)], &["x"]);
    assert!(wrong(&[first.clone(), blind.clone()], STRICT).1.contains("had written too"));
    let overwrites = Committed { overwrites: true, ..blind };
    assert_eq!(replay(&[first, overwrites], STRICT), Ok(()));
}

#[test]
fn the_first_wrong_read_is_named() {
    let run = [
        committed(1, 0, 1, &[], &["x"]),
        committed(2, 1, 0, &[point("x", None)], &[]),
        committed(3, 1, 2, &[point("x", Some(7))], &[]),
    ];
    let (name, reason) = wrong(&run, SNAPSHOT);
    assert_eq!(name, 2);
    assert_eq!(reason, "at snapshot 1 it read \"x\" as absent, but it was of the commit at 1");
}

#[test]
fn ranges_show_phantoms_and_gaps() {
    let writes = committed(1, 0, 1, &[], &["a", "c"]);
    let gap = committed(2, 1, 0, &[range("a", &[("c", 1)])], &[]);
    assert!(wrong(&[writes.clone(), gap], SNAPSHOT).1.contains("there was \"a\""));
    let ghost = committed(2, 1, 0, &[range("a", &[("a", 1), ("b", 1), ("c", 1)])], &[]);
    assert!(wrong(&[writes.clone(), ghost], SNAPSHOT).1.contains("found \"b\""));
    // A key appears in the range before the commit; snapshot isolation allows that.
    let scan = committed(2, 1, 3, &[range("b", &[("c", 1)])], &["z"]);
    let run = [writes, scan, committed(3, 1, 2, &[], &["b"])];
    assert_eq!(replay(&run, SNAPSHOT), Ok(()));
    assert!(wrong(&run, STRICT).1.contains("it read \"b\""));
}

#[test]
fn conflicts_are_found() {
    let run = [
        committed(1, 0, 2, &[point("x", None)], &["x"]),
        committed(2, 0, 3, &[point("x", None)], &["x"]),
    ];
    assert!(wrong(&run, SNAPSHOT).1.contains("written too"));
    let skew = [
        committed(1, 0, 2, &[point("x", None)], &["y"]),
        committed(2, 0, 3, &[point("y", None)], &["x"]),
    ];
    assert_eq!(replay(&skew, SNAPSHOT), Ok(()));
    assert_eq!(wrong(&skew, STRICT).0, 2);
}

#[test]
fn timestamps_are_checked() {
    let twice = [committed(1, 0, 2, &[], &["x"]), committed(2, 1, 2, &[], &["y"])];
    assert!(wrong(&twice, SNAPSHOT).1.contains("too"));
    assert!(wrong(&[committed(1, 2, 2, &[], &["x"])], SNAPSHOT).1.contains("not before"));
}

#[test]
fn real_time_is_checked() {
    let first = committed(1, 0, 5, &[], &["x"]);
    let mut stale = committed(2, 4, 0, &[point("x", None)], &[]);
    assert_eq!(replay(&[first.clone(), stale.clone()], STRICT), Ok(()));
    stale.invoked = 100;
    let run = [first.clone(), stale.clone()];
    assert!(wrong(&run, STRICT).1.contains("transaction 1 at 5"));
    assert!(wrong(&run, Level::Snapshot { real_time: true }).1.contains("answered before"));
    assert_eq!(replay(&run, Level::Serializable { real_time: false }), Ok(()));
    // A snapshot at 5 includes the commit at 5, which therefore cannot come later.
    let reader = committed(2, 5, 0, &[], &[]);
    let mut writer = committed(3, 0, 5, &[], &["x"]);
    writer.invoked = 100;
    assert_eq!(wrong(&[reader, writer], STRICT).0, 3);
    // A writer with an old snapshot takes effect when it commits.
    let mut late = committed(2, 4, 6, &[point("y", None)], &["z"]);
    late.invoked = 100;
    let run = [first, late];
    assert_eq!(replay(&run, STRICT), Ok(()));
    assert_eq!(wrong(&run, Level::Snapshot { real_time: true }).0, 2);
}

/// Random correct runs pass; the same runs with one changed read do not.
#[test]
fn one_changed_read_is_always_found() {
    for seed in 0..3000 {
        let mut rng = SeededRng::new(seed);
        let mut state: Vec<BTreeMap<String, Timestamp>> = vec![BTreeMap::new()];
        let mut run = Vec::new();
        for commit in 1..12 {
            let key = format!("k{}", rng.below(4));
            let snapshot = commit - 1;
            let seen = &state[usize::try_from(snapshot).unwrap()];
            let read = point(&key, seen.get(&key).copied());
            let all: Vec<(&str, u64)> = seen.iter().map(|(key, at)| (key.as_str(), *at)).collect();
            run.push(committed(commit, snapshot, 0, &[range("", &all)], &[]));
            let mut next = seen.clone();
            let written = if rng.below(3) == 0 { format!("-{key}") } else { key.clone() };
            run.push(committed(100 + commit, snapshot, commit, &[read], &[&written]));
            if written.starts_with('-') {
                next.remove(&key);
            } else {
                next.insert(key, commit);
            }
            state.push(next);
        }
        assert_eq!(replay(&run, STRICT), Ok(()), "seed {seed}");
        let victim = usize::try_from(rng.below(run.len() as u64)).unwrap();
        match &mut run[victim].reads[0] {
            Read::Point { found: Some(found), .. } => *found += 1,
            Read::Point { found, .. } => *found = Some(1),
            Read::Range { found, .. } if found.is_empty() => found.push((b"k9".to_vec(), 1)),
            Read::Range { found, .. } => drop(found.pop()),
        }
        let name = run[victim].name;
        assert_eq!(wrong(&run, STRICT).0, name, "seed {seed}");
    }
}
