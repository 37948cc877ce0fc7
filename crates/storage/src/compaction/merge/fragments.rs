//! Combines the range tombstones of all inputs into fragments that do not overlap.
//!
//! ```text
//!  inputs   [a ───── 9 ───── m)           output   [a, f) 9
//!                  [f ──── 4 ──── t)               [f, m) 9 4
//!                                                  [m, t) 4
//! ```
//!
//! One pass over the sorted bounds keeps the set of range tombstones that are open at each bound.
//! If a newer one hides an older one from every reader, only the newer one is kept, so a table that
//! is repeatedly cleared does not accumulate versions.

use std::collections::BTreeMap;

use bytes::Bytes;

use super::mark::Stripes;
use super::source::{Fragment, RangeVersion};

/// Returns fragments that do not overlap, in ascending order.
pub(crate) fn combine(
    inputs: impl IntoIterator<Item = Fragment>,
    stripes: &Stripes,
) -> Vec<Fragment> {
    let mut ends: Vec<(Bytes, Vec<RangeVersion>, bool)> = Vec::new();
    for Fragment { lower, upper, versions } in inputs {
        if lower < upper {
            ends.push((lower, versions.clone(), true));
            ends.push((upper, versions, false));
        }
    }
    ends.sort_unstable_by(|(left, ..), (right, ..)| left.cmp(right));
    // Number of open ranges with this version. While bounds at one key are processed, it may be
    // negative.
    let mut open: BTreeMap<RangeVersion, i64> = BTreeMap::new();
    let mut fragments: Vec<Fragment> = Vec::new();
    let mut ends = ends.into_iter().peekable();
    while let Some((lower, versions, opens)) = ends.next() {
        for version in versions {
            *open.entry(version).or_insert(0) += if opens { 1 } else { -1 };
        }
        let Some((upper, ..)) = ends.peek() else { break };
        if *upper > lower {
            open.retain(|_, count| *count > 0);
            let versions = seen(&open, stripes);
            match fragments.last_mut() {
                Some(last) if last.upper == lower && last.versions == versions => {
                    last.upper = upper.clone();
                }
                _ if versions.is_empty() => {}
                _ => fragments.push(Fragment { lower, upper: upper.clone(), versions }),
            }
        }
    }
    fragments
}

/// Returns the open versions that no newer one hides from every reader, newest first.
fn seen(open: &BTreeMap<RangeVersion, i64>, stripes: &Stripes) -> Vec<RangeVersion> {
    let mut seen: Vec<RangeVersion> = Vec::new();
    for version in open.keys().rev() {
        let hidden = seen.last().is_some_and(|newer| {
            newer.commit == version.commit || stripes.hides(newer.commit, version.commit)
        });
        if !hidden {
            seen.push(*version);
        }
    }
    seen
}

#[cfg(test)]
mod tests {
    use carnet_base::{Rng, SeededRng, Timestamp};

    use super::super::mark::Mark;
    use super::*;

    fn fragment(lower: &str, upper: &str, commits: &[u64]) -> Fragment {
        let version = |commit: &u64| RangeVersion {
            commit: Timestamp::new(*commit).unwrap(),
            start: Timestamp::new(*commit - 1).unwrap(),
        };
        let bytes = |text: &str| Bytes::copy_from_slice(text.as_bytes());
        let versions = commits.iter().map(version).collect();
        Fragment { lower: bytes(lower), upper: bytes(upper), versions }
    }

    fn stripes(read: u64) -> Stripes {
        Stripes::new(&Mark { read: Timestamp::new(read).unwrap(), ..Mark::default() })
    }

    #[test]
    fn overlapping_range_tombstones_are_split() {
        let inputs = [fragment("a", "m", &[9]), fragment("f", "t", &[4])];
        let cut = [fragment("a", "f", &[9]), fragment("f", "m", &[9, 4]), fragment("m", "t", &[4])];
        assert_eq!(combine(inputs, &stripes(0)), cut);
    }

    #[test]
    fn gap_between_range_tombstones_has_no_fragment() {
        let inputs = [fragment("a", "c", &[9]), fragment("f", "h", &[4])];
        assert_eq!(combine(inputs.clone(), &stripes(0)), inputs);
    }

    #[test]
    fn hidden_range_tombstone_is_dropped() {
        let inputs = [fragment("a", "m", &[9]), fragment("f", "t", &[4]), fragment("t", "u", &[4])];
        let cut = [fragment("a", "m", &[9]), fragment("m", "u", &[4])];
        assert_eq!(combine(inputs.clone(), &stripes(9)), cut);
        assert_eq!(combine(inputs, &stripes(8)).len(), 3, "a reader at 8 needs 4");
    }

    #[test]
    fn fragments_cover_keys_like_the_inputs() {
        for seed in 0..2000 {
            let mut rng = SeededRng::new(seed);
            let mut inputs = Vec::new();
            for _ in 0..rng.below(8) {
                let (lower, len) = (rng.below(12), rng.below(6));
                let key = |key: u64| format!("{key:02}");
                let mut commits: Vec<u64> = (0..=rng.below(2)).map(|_| 1 + rng.below(6)).collect();
                commits.sort_unstable_by(|left, right| right.cmp(left));
                commits.dedup();
                inputs.push(fragment(&key(lower), &key(lower + len), &commits));
            }
            let fragments = combine(inputs.clone(), &stripes(0));
            assert!(fragments.windows(2).all(|pair| pair[0].upper <= pair[1].lower), "seed {seed}");
            for key in 0..20 {
                let key = format!("{key:02}");
                let covering = |fragments: &[Fragment]| {
                    let covering = |fragment: &&Fragment| {
                        fragment.lower <= key.as_bytes() && fragment.upper > key.as_bytes()
                    };
                    let mut versions: Vec<RangeVersion> = fragments
                        .iter()
                        .filter(covering)
                        .flat_map(|fragment| fragment.versions.clone())
                        .collect();
                    versions.sort_unstable_by(|left, right| right.cmp(left));
                    versions.dedup();
                    versions
                };
                assert_eq!(covering(&fragments), covering(&inputs), "seed {seed}, key {key}");
            }
        }
    }
}
