//! Compares tables with a sorted map.

use super::*;
use crate::sstable::flat_key::{partition_len, token_of};

/// Returns keys to look up: existing ones and neighbors of them.
fn wanted(model: &Model, rng: &mut SeededRng) -> Vec<Vec<u8>> {
    let mut keys: Vec<_> = model.versions.keys().map(|(key, _)| key.clone()).collect();
    keys.dedup();
    let near: Vec<_> = keys
        .iter()
        .flat_map(|key| {
            let longer = [&key[..], &[0]].concat();
            let mut shorter = key.clone();
            shorter.pop();
            [longer, shorter]
        })
        .collect();
    keys.extend(near);
    keys.extend((0..20).map(|_| awkward_key(rng)));
    keys.push(Vec::new());
    keys.push(vec![0xff; 40]);
    keys
}

fn random_read(model: &Model, rng: &mut SeededRng) -> Timestamp {
    match rng.below(8) {
        0 => Timestamp::ZERO,
        1..=2 => Timestamp::MAX,
        3 => time(rng.below(1000)),
        _ => {
            let at = rng.below(model.versions.len() as u64) as usize;
            let (_, Reverse(commit)) = model.versions.keys().nth(at).unwrap();
            time((commit.get() + rng.below(3)).saturating_sub(1))
        }
    }
}

fn raw(table: &Arc<Table>, lower: Bytes, upper: Option<Bytes>) -> Model {
    let mut cursor = RawCursor::new(Arc::clone(table), lower, upper);
    let mut model = Model::default();
    let mut last = None;
    loop {
        cursor.advance_blocking().unwrap();
        let Some(entry) = cursor.entry() else { break };
        let at = (entry.key.to_vec(), Reverse(entry.commit));
        assert!(last < Some(at.clone()), "in order");
        last = Some(at.clone());
        model.versions.insert(at, (entry.start, entry.expiry, entry.payload.map(<[u8]>::to_vec)));
    }
    cursor.advance_blocking().unwrap();
    assert!(cursor.entry().is_none(), "the end stays the end");
    model
}

/// All kinds of reads, of tables with all options, tiny blocks first.
#[test]
fn table_matches_sorted_map() {
    with_seeds(400, |seed, rng| {
        let versions = 1 + rng.below(1 + seed * 2);
        let model = random_model(rng, versions);
        let cache = Cache::new([0, 3_000, 1 << 20][rng.below(3) as usize]);
        let reads = ReadOptions { bypass_cache: rng.chance(300) };
        let table = model.table(&cache, random_options(rng));
        let keys = wanted(&model, rng);
        for key in &keys {
            for _ in 0..3 {
                let read = random_read(&model, rng);
                let found = block_on(table.get(key, read, reads)).unwrap();
                assert_eq!(found, model.get(key, read), "{key:x?} at {read}");
                if let Ok(cached) = table.get_cached(key, read, reads) {
                    assert_eq!(cached, found);
                }
            }
        }
        for round in 0..30 {
            let mut key = || keys[rng.below(keys.len() as u64) as usize].clone();
            let (lower, upper) = (key(), key());
            let upper = (!rng.chance(200)).then(|| upper.into());
            let lower = if rng.chance(200) { Bytes::new() } else { lower.into() };
            let read = random_read(&model, rng);
            let cells_wanted = (round % 3 == 0).then(|| rng.below(200) as usize);
            let walk = Walk { lower, upper, read, reverse: round % 2 == 0, cells_wanted, reads };
            assert_eq!(walked(&table, &walk), model.walk(&walk), "{walk:?}");
            let Walk { lower, upper, .. } = walk;
            let mut part = model.versions.clone();
            part.retain(|(key, _), _| {
                **key >= *lower && upper.as_ref().is_none_or(|upper| **key < **upper)
            });
            assert_eq!(raw(&table, lower, upper).versions, part);
        }
        assert_eq!(verify(&table, |_| ()).unwrap().versions, model.versions.len() as u64);
        check_statistics(&table, &model);
    });
}

fn check_statistics(table: &Table, model: &Model) {
    let statistics = table.statistics();
    let commits = model.versions.keys().map(|(_, Reverse(commit))| *commit);
    let deleted = model.tombstones.iter().filter(|t| t.lower < t.upper);
    let commits = commits.chain(deleted.clone().map(|t| t.commit));
    let starts = model.versions.values().map(|(start, ..)| *start);
    let starts = starts.chain(deleted.map(|t| t.start));
    let expiries = model.versions.values().filter_map(|(_, expiry, _)| *expiry);
    assert_eq!(Some(statistics.commit_min), commits.clone().min());
    assert_eq!(Some(statistics.commit_max), commits.max());
    assert_eq!(Some(statistics.start_min), starts.clone().min());
    assert_eq!(Some(statistics.start_max), starts.max());
    assert_eq!(statistics.expiry, expiries.clone().min().zip(expiries.max()));
    assert_eq!(statistics.versions, model.versions.len() as u64);
    let tombstones = model.versions.values().filter(|(.., payload)| payload.is_none()).count();
    assert_eq!(statistics.tombstones, tombstones as u64);
    let keys = model.versions.keys().map(|(key, _)| key);
    let mut partitions: Vec<_> = keys.clone().map(|key| &key[..partition_len(key)]).collect();
    partitions.dedup();
    assert_eq!(statistics.partitions, partitions.len() as u64);
    let tokens = || partitions.iter().map(|partition| token_of(partition));
    assert_eq!(statistics.tokens, (tokens().min().unwrap(), tokens().max().unwrap()));
    assert_eq!(
        (&statistics.first[..], &statistics.last[..]),
        (
            &model.versions.first_key_value().unwrap().0.0[..],
            &model.versions.last_key_value().unwrap().0.0[..],
        )
    );
}

/// Range tombstones are returned as they were added, split where they overlap.
#[test]
fn range_tombstones_match_list() {
    with_seeds(500, |_, rng| {
        let mut model = random_model(rng, 5);
        let few = |rng: &mut SeededRng| flat(1, 0, b"", &[b'a' + rng.below(6) as u8]);
        for commit in 0..rng.below(30) {
            let (a, b) = (few(rng), few(rng));
            let (lower, upper) = (a.clone().min(b.clone()).into(), a.max(b).into());
            let commit = time(5 + commit);
            model.tombstones.push(RangeTombstone { lower, upper, commit, start: time(1) });
        }
        model.tombstones.retain(|t| t.commit >= time(5) && t.start == time(1));
        model.tombstones.sort_by(|left, right| left.lower.cmp(&right.lower));
        let only_tombstones = rng.chance(300);
        if only_tombstones {
            model.versions.clear();
        }
        if model.versions.is_empty() && model.tombstones.iter().all(|t| t.lower >= t.upper) {
            let disk: Arc<dyn Disk> = Arc::new(SimDisk::new(1));
            assert_eq!(model.build(&disk, 1, |_| TableOptions::default()), None);
            assert_eq!(disk.list().unwrap(), Vec::<String>::new(), "nothing is left behind");
            return;
        }
        let table = model.table(&Cache::new(0), TableOptions::default());
        for _ in 0..40 {
            let mut key = few(rng);
            key.extend(&[0, 1][..rng.below(3) as usize]);
            let read = time(rng.below(40));
            let read = if rng.chance(200) { Timestamp::MAX } else { read };
            let tombstones = table.range_tombstones();
            assert_eq!(tombstones.covering(&key, read), model.covering(&key, read));
            assert_eq!(
                block_on(table.get(&key, read, ReadOptions::default())).unwrap(),
                model.get(&key, read)
            );
            let upper = few(rng);
            let overlaps = model.tombstones.iter().any(|t| {
                let lower = t.lower.to_vec().max(key.clone());
                *lower < *t.upper && lower < upper
            });
            assert_eq!(tombstones.overlaps(&key, Some(&upper)), overlaps);
        }
        // Fragments do not overlap, and stay the same when they are split again.
        let tombstones = table.range_tombstones().iter().collect();
        let again = Model { tombstones, ..Model::default() };
        for pair in again.tombstones.windows(2) {
            assert!(
                pair[0].upper <= pair[1].lower
                    || (pair[0].lower == pair[1].lower && pair[0].commit > pair[1].commit)
            );
        }
        if !again.tombstones.is_empty() {
            let again = again.table(&Cache::new(0), TableOptions::default());
            assert_eq!(again.range_tombstones(), table.range_tombstones());
        }
    });
}
