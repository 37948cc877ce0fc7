//! Tests of each rule of a merge. Cells are written `key@commit=payload`; `key@commit!` is a
//! tombstone, `key@commit=payload~9` expires at second 9, and `[lower,upper)@commit` deletes a
//! range. Payloads that begin with `+` are deltas, which are added to the value below them.

use std::collections::BTreeSet;

use bytes::Bytes;
use carnet_base::{Error, ErrorKind, Result, TableId, Timestamp};

use super::*;

fn at(number: u64) -> Timestamp {
    Timestamp::new(number).unwrap()
}

type Owned = (Vec<u8>, Timestamp, Option<u64>, Option<Vec<u8>>);

/// Source of cells in memory.
#[derive(Debug)]
struct Memory {
    cells: Vec<Owned>,
    place: usize,
}

impl Source for Memory {
    fn key(&self) -> Option<&[u8]> {
        self.cells.get(self.place).map(|(key, ..)| &key[..])
    }

    fn cell(&self) -> Cell<'_> {
        let (_, commit, expiry, payload) = &self.cells[self.place];
        let start = commit.previous().unwrap();
        Cell { commit: *commit, start, expiry: *expiry, payload: payload.as_deref() }
    }

    fn advance(&mut self) -> Result<()> {
        self.place += 1;
        Ok(())
    }
}

/// Sink that records the output as text.
#[derive(Default)]
struct Notes {
    text: Vec<String>,
    key: Option<Vec<u8>>,
    /// Number of cells that will be dropped once they have passed.
    will_pass: usize,
}

impl Sink for Notes {
    fn begin_key(&mut self, key: &[u8]) -> Result<()> {
        assert!(self.key.as_ref().is_none_or(|before| **before < *key), "keys ascend");
        self.key = Some(key.to_vec());
        Ok(())
    }

    fn push(&mut self, key: &[u8], cell: Cell<'_>, _: VersionKind) -> Result<()> {
        assert_eq!(self.key.as_deref(), Some(key), "a version comes after its key was begun");
        assert_eq!(cell.start, cell.commit.previous().unwrap());
        let key = String::from_utf8_lossy(&key[4..]);
        let payload = cell.payload.map_or("!".to_owned(), |payload| {
            let expiry = cell.expiry.map_or(String::new(), |expiry| format!("~{expiry}"));
            format!("={}{expiry}", String::from_utf8_lossy(payload))
        });
        self.text.push(format!("{key}@{}{payload}", cell.commit));
        Ok(())
    }

    fn will_pass(&mut self, _: bool) {
        self.will_pass += 1;
    }
}

/// GC watermark, dropped tables (of the catalog), whether the cells of all tables pass, and whether
/// merges of deltas fail.
#[derive(Clone, Debug, Default)]
struct Hook {
    mark: Mark,
    dropped: BTreeSet<TableId>,
    passes: bool,
    fails: bool,
}

impl GcHook for Hook {
    fn mark(&self) -> Mark {
        self.mark.clone()
    }

    fn is_dropped(&self, table: TableId) -> bool {
        self.dropped.contains(&table)
    }

    fn passes(&self, _: TableId) -> bool {
        self.passes
    }

    fn has_passed(&self, mark: Timestamp, key: &[u8], commit: Timestamp) -> bool {
        commit <= mark && key.last() != Some(&b'!')
    }

    fn delta_mark(&self, _: TableId) -> Option<u8> {
        Some(b'+')
    }

    fn merge(
        &self,
        value: Option<(Timestamp, &Bytes)>,
        deltas: &[(Timestamp, Bytes)],
    ) -> Result<Option<Bytes>> {
        if self.fails {
            return Err(Error::corrupted("a delta is damaged"));
        }
        // The delta `+-` deletes.
        let last_delete = deltas.iter().position(|(_, delta)| delta == "+-");
        if last_delete == Some(0) {
            return Ok(None);
        }
        let value = value.filter(|_| last_delete.is_none()).map_or(&b"0"[..], |(_, value)| value);
        let newer = deltas[..last_delete.unwrap_or(deltas.len())].iter().rev();
        let newer = newer.map(|(_, delta)| &delta[..]);
        Ok(Some(std::iter::once(value).chain(newer).collect::<Vec<_>>().concat().into()))
    }

    fn expiry(&self, value: &[u8]) -> Option<u64> {
        value.ends_with(b"E").then_some(200)
    }
}

fn read(read: u64) -> Hook {
    Hook { mark: Mark { read: at(read), ..Mark::default() }, ..Hook::default() }
}

/// Makes a key of table 1.
fn key(text: &str) -> Vec<u8> {
    [&[0, 0, 0, 1], text.as_bytes()].concat()
}

fn range(lower: &str, upper: &str) -> FlatRange {
    FlatRange::new(key(lower), key(upper))
}

/// Returns a range that contains all keys of the tests.
fn all() -> FlatRange {
    FlatRange::new(vec![0], vec![1])
}

/// Merges inputs and returns the output, cells first.
fn merge(hook: Hook, below: Below, inputs: &[&str]) -> Result<String> {
    let mut sources = Vec::new();
    let mut fragments = Vec::new();
    for input in inputs {
        let mut cells = Vec::new();
        for item in input.split_whitespace() {
            let (what, version) = item.split_once('@').unwrap();
            if let Some(ends) = what.strip_prefix('[') {
                let (lower, upper) = ends.trim_end_matches(')').split_once(',').unwrap();
                let commit = at(version.parse().unwrap());
                let versions = vec![RangeVersion { commit, start: commit.previous().unwrap() }];
                let FlatRange { lower, upper } = range(lower, upper);
                fragments.push(Fragment { lower, upper, versions });
            } else if let Some(commit) = version.strip_suffix('!') {
                cells.push((key(what), at(commit.parse().unwrap()), None, None));
            } else {
                let (commit, payload) = version.split_once('=').unwrap();
                let (payload, expiry) = match payload.split_once('~') {
                    Some((payload, expiry)) => (payload, Some(expiry.parse().unwrap())),
                    None => (payload, None),
                };
                let commit = at(commit.parse().unwrap());
                cells.push((key(what), commit, expiry, Some(payload.as_bytes().to_vec())));
            }
        }
        sources.push(Memory { cells, place: 0 });
    }
    let passes = hook.passes;
    let mut merge = Merge::new(sources, fragments, &all(), below, hook);
    let mut notes = Notes::default();
    while merge.step(&mut notes)?.is_some() {}
    assert_eq!(notes.will_pass, if passes { notes.text.len() } else { 0 });
    for Fragment { lower, upper, versions } in merge.range_tombstones() {
        let text = |key: &Bytes| String::from_utf8_lossy(&key[4..]).into_owned();
        for version in versions {
            notes.text.push(format!("[{},{})@{}", text(&lower), text(&upper), version.commit));
        }
    }
    Ok(notes.text.join(" "))
}

/// Merges without older data in deeper levels.
fn bottom(hook: Hook, inputs: &[&str]) -> String {
    merge(hook, Below::default(), inputs).unwrap()
}

/// Merges with older data in deeper levels within a range.
fn above(lower: &str, upper: &str, hook: Hook, inputs: &[&str]) -> String {
    merge(hook, Below::of([range(lower, upper)]), inputs).unwrap()
}

/// Hook of a layer that knows neither cells that pass nor deltas.
struct Plain;

impl GcHook for Plain {
    fn mark(&self) -> Mark {
        Mark::default()
    }

    fn is_dropped(&self, _: TableId) -> bool {
        false
    }
}

#[test]
fn cells_pass_and_deltas_merge_only_where_a_layer_says_so() {
    let table = TableId(7);
    assert!(!Plain.passes(table) && !Plain.keeps_newest(table));
    assert!(!Plain.has_passed(Timestamp::MAX, b"k", at(1)));
    assert_eq!((Plain.delta_mark(table), Plain.expiry(b"v")), (None, None));
    let error = Plain.merge(None, &[(at(1), Bytes::from_static(b"+1"))]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported);
}

#[test]
fn inputs_are_merged_by_key_then_newest_first() {
    let inputs = ["a@9=x c@7=x", "a@8=y b@8=y", "", "a@1=z c@9=z d@1=z", "b@2=w"];
    let merged = "a@9=x a@8=y a@1=z b@8=y b@2=w c@9=z c@7=x d@1=z";
    assert_eq!(bottom(read(0), &inputs), merged);
    assert_eq!(bottom(read(0), &[]), "");
}

#[test]
fn keys_with_common_prefix_are_merged_in_order() {
    let inputs = ["prefixprefix@1=x prefixprefixb@1=x", "prefixprefi@1=y prefixprefixa@1=y"];
    let merged = "prefixprefi@1=y prefixprefix@1=x prefixprefixa@1=y prefixprefixb@1=x";
    assert_eq!(bottom(read(0), &inputs), merged);
}

#[test]
fn version_in_two_inputs_is_written_once() {
    assert_eq!(bottom(read(0), &["a@9=x a@8=x b@7!", "a@9=x b@7!"]), "a@9=x a@8=x b@7!");
}

#[test]
fn newest_version_below_watermark_survives() {
    let inputs = ["a@9=x a@6=x", "a@5=y a@4!", "b@3=z"];
    assert_eq!(bottom(read(6), &inputs), "a@9=x a@6=x b@3=z");
}

#[test]
fn tombstone_survives_over_deeper_older_data() {
    let inputs = ["a@5! b@5!", "a@4=x c@5! d@9!"];
    assert_eq!(bottom(read(6), &inputs), "d@9!", "a reader before 9 must not be told of 9");
    assert_eq!(above("b", "c", read(6), &inputs), "b@5! d@9!");
}

#[test]
fn tombstone_survives_over_older_version() {
    let hook = || {
        let mut hook = read(6);
        hook.mark.snapshots = vec![at(4)];
        hook
    };
    assert_eq!(bottom(hook(), &["a@5! a@4=x a@3=x b@5! b@4! b@3=x"]), "a@5! a@4=x");
}

#[test]
fn oldest_adjacent_tombstone_survives() {
    let mut hook = read(9);
    hook.mark.snapshots = vec![at(3), at(5), at(7)];
    assert_eq!(bottom(hook, &["a@9! a@7! a@5! a@3=x a@2=x"]), "a@5! a@3=x");
}

#[test]
fn expired_version_becomes_tombstone() {
    let mut hook = read(6);
    hook.mark.wall = Some(100);
    let inputs = ["a@5=x~100 b@5=x~101 c@5=x~1", "c@4=y"];
    assert_eq!(above("a", "b", hook.clone(), &inputs), "a@5! b@5=x~101");
    assert_eq!(bottom(hook, &inputs), "b@5=x~101", "the older version does not come back");
}

#[test]
fn range_tombstone_survives_over_older_data() {
    let inputs = ["[b,d)@5", "a@4=x b@4=x c@6=x c@4=x d@4=x"];
    assert_eq!(bottom(read(6), &inputs), "a@4=x c@6=x d@4=x");
    assert_eq!(above("c", "d", read(6), &inputs), "a@4=x c@6=x d@4=x [b,d)@5");
    assert_eq!(above("d", "e", read(6), &inputs), "a@4=x c@6=x d@4=x");
}

#[test]
fn range_tombstone_above_oldest_reader_survives() {
    let inputs = ["[b,d)@5", "b@4=x c@5=x"];
    assert_eq!(bottom(read(4), &inputs), "b@4=x c@5=x [b,d)@5");
    let mut hook = read(6);
    hook.mark.snapshots = vec![at(4)];
    assert_eq!(bottom(hook, &inputs), "b@4=x c@5=x [b,d)@5");
    assert_eq!(bottom(read(5), &inputs), "c@5=x", "the cell of its own commit wins");
}

#[test]
fn dropped_table_writes_no_cells() {
    let mut hook = read(0);
    hook.dropped.insert(TableId(1));
    assert_eq!(above("a", "z", hook.clone(), &["a@5=x b@4! [b,d)@5"]), "");
    hook.dropped = BTreeSet::from([TableId(2)]);
    assert_eq!(above("a", "z", hook, &["a@5=x b@4! [b,d)@5"]), "a@5=x b@4! [b,d)@5");
}

#[test]
fn unsorted_input_is_corruption() {
    for inputs in [&["b@1=x a@1=x"][..], &["b@1=x a@1=x", "c@1=y"]] {
        let error: Error = merge(read(0), Below::default(), inputs).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corrupted, "{error}");
    }
}

#[test]
fn passed_cells_are_dropped_without_tombstone() {
    let passing = |mark| Hook { passes: true, ..read(mark) };
    let inputs = ["a@9=x b@7=x c!@3=x", "d@8=y", "e@2=y"];
    assert_eq!(bottom(passing(7), &inputs), "a@9=x c!@3=x d@8=y", "the hook still needs c!");
    assert_eq!(above("a", "z", passing(7), &inputs), "a@9=x c!@3=x d@8=y");
    assert_eq!(bottom(passing(1), &inputs), "a@9=x b@7=x c!@3=x d@8=y e@2=y");
    assert_eq!(bottom(read(7), &inputs), "a@9=x b@7=x c!@3=x d@8=y e@2=y", "no passing table");
    // A reader below the watermark may need cells above its snapshot.
    let mark = Mark { read: at(7), snapshots: vec![at(2)], wall: None };
    let with_snapshot = Hook { mark, passes: true, ..Hook::default() };
    assert_eq!(bottom(with_snapshot, &inputs), "a@9=x b@7=x c!@3=x d@8=y");
}

#[test]
fn deltas_are_merged_with_the_value_below() {
    let inputs = ["a@9=+c a@8=+b", "a@7=x a@6=y b@5=+d"];
    assert_eq!(bottom(read(9), &inputs), "a@9=x+b+c b@5=0+d");
    assert_eq!(bottom(read(8), &inputs), "a@9=+c a@8=x+b b@5=0+d", "a reader may be at 8");
    assert_eq!(bottom(read(7), &inputs), "a@9=+c a@8=+b a@7=x b@5=0+d");
    assert_eq!(bottom(read(0), &inputs), "a@9=+c a@8=+b a@7=x a@6=y b@5=+d");
}

#[test]
fn deltas_stay_above_deeper_older_data() {
    let inputs = ["a@9=+c b@9=+c", "a@8=+b b@8=+b"];
    assert_eq!(above("b", "c", read(9), &inputs), "a@9=0+b+c b@9=+c b@8=+b");
}

#[test]
fn tombstone_ends_a_chain_of_deltas() {
    let inputs = ["a@9=+c b@9=+c [b,c)@8", "a@8! a@7=x b@7=x"];
    assert_eq!(above("a", "c", read(9), &inputs), "a@9=0+c b@9=0+c [b,c)@8");
    let mut hook = read(9);
    hook.mark.snapshots = vec![at(7)];
    assert_eq!(bottom(hook, &inputs), "a@9=0+c a@7=x b@9=+c b@7=x [b,c)@8");
}

#[test]
fn deltas_of_each_stripe_survive() {
    let mut hook = read(9);
    hook.mark.snapshots = vec![at(6)];
    let inputs = ["a@9=+e a@8=+d a@6=+c", "a@5=+b a@4=x a@3=y"];
    assert_eq!(bottom(hook.clone(), &inputs), "a@9=+e a@8=+d a@6=x+b+c");
    let inputs = ["a@9=+e a@7! a@6=+c", "b@9! b@6=+c b@5=y"];
    assert_eq!(bottom(hook, &inputs), "a@9=0+e a@6=0+c b@9! b@6=y+c");
}

#[test]
fn delta_above_expiring_value_is_not_merged() {
    let mut hook = read(9);
    hook.mark.wall = Some(100);
    let inputs = ["a@9=+c a@8=x~101 b@9=+c b@8=x~100"];
    assert_eq!(bottom(hook, &inputs), "a@9=+c a@8=x~101 b@9=0+c");
}

#[test]
fn merged_value_has_an_expiry_of_its_own() {
    // In these tests a value that ends in `E` expires at second 200.
    let inputs = ["a@9=+c b@9=+E", "a@8=x b@8=x c@7=+E"];
    assert_eq!(bottom(read(9), &inputs), "a@9=x+c b@9=x+E~200 c@7=0+E~200");
}

#[test]
fn deltas_of_a_value_that_is_too_long_are_kept() {
    let half = "x".repeat(20 << 20);
    let inputs = [format!("a@9=+{half} a@8=+b"), format!("a@7={half} b@7=x")];
    let inputs = [&inputs[0][..], &inputs[1]];
    assert!(bottom(read(9), &inputs) == [inputs[0], inputs[1]].join(" "));
}

/// Without the version that ends their chain, the deltas would be merged with older data in a deeper
/// level: a deleted row would return.
#[test]
fn deltas_that_cannot_be_merged_keep_what_hides_older_data() {
    let failing = |wall| {
        let mut hook = Hook { fails: true, ..read(9) };
        hook.mark.wall = wall;
        hook
    };
    let inputs = ["a@9=+c a@8=+b", "a@7! a@6=x b@9=+c b@8=x b@7=y"];
    assert_eq!(above("a", "c", failing(None), &inputs), "a@9=+c a@8=+b a@7! b@9=+c b@8=x");
    assert_eq!(bottom(failing(None), &inputs), "a@9=+c a@8=+b b@9=+c b@8=x", "nothing to hide");
    let expired = ["a@9=+c a@8=x~100 a@7=y"];
    assert_eq!(above("a", "b", failing(Some(100)), &expired), "a@9=+c a@8!");
    let covered = ["[a,b)@8 a@9=+c a@7=x"];
    assert_eq!(above("a", "b", failing(None), &covered), "a@9=+c [a,b)@8");
    let mut hook = failing(None);
    hook.mark.snapshots = vec![at(6)];
    let inputs = ["a@9=+c a@8! a@7=y a@6=+b a@5! a@4=x"];
    assert_eq!(above("a", "b", hook.clone(), &inputs), "a@9=+c a@8! a@6=+b a@5!");
    assert_eq!(bottom(hook, &inputs), "a@9=+c a@8! a@6=+b");
}

#[test]
fn delta_in_two_inputs_is_added_once() {
    assert_eq!(bottom(read(9), &["a@9=+c a@8=+b", "a@9=+c a@8=+b a@7=x"]), "a@9=x+b+c");
}

#[test]
fn delta_that_leaves_nothing_becomes_tombstone() {
    let inputs = ["a@9=+- a@8=+b", "a@7=x b@9=+c b@8=+- b@7=x"];
    assert_eq!(bottom(read(9), &inputs), "b@9=0+c");
    assert_eq!(above("a", "b", read(9), &inputs), "a@9! b@9=0+c");
    let mut hook = read(9);
    hook.mark.snapshots = vec![at(7)];
    assert_eq!(bottom(hook, &["a@9=+- a@8! a@7=x"]), "a@9! a@7=x");
}
