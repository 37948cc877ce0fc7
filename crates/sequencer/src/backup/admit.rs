//! Decides whether a restore may begin, and with which lease. Pure.

use carnet_base::{EncodingMap, Epoch, Error, Result, Rng, Timestamp};

use super::label::{Label, LeasePoint};
use crate::lease::{Address, Lease, Owner};

/// Minimum distance between the bound of the backup and the first timestamp of the restored
/// database; the actual one is up to twice as large.
///
/// The original database may have gone on after the backup, and processes and clients may bring its
/// later timestamps to the restored one. At a hundred thousand timestamps a second it takes a month
/// to cover this distance.
const AHEAD_MIN: u64 = 1 << 38;

/// Minimum distance between the epochs; epochs cost nothing.
const EPOCHS_AHEAD_MIN: u64 = 1 << 32;

/// Owner in the lease of a restore, shown to processes that look for the leader.
const NAME: &str = "a restore (run `carnet restore` again if it was cut short)";

/// Returns the lease that a restore takes, given the lease in the restored tables, which no process
/// renews.
pub(super) fn admit(lease: Option<&Lease>, label: &Label, rng: &mut dyn Rng) -> Result<Lease> {
    let Some(lease) = lease else {
        return Err(Error::invalid(
            "the tables have no lease: put the copy back first, the table of registers, too",
        ));
    };
    if lease.is_restoring {
        return resumed(lease, label, rng);
    }
    if lease.owner.nonce == label.id {
        return Err(Error::invalid(
            "this backup has been restored here already: start the database",
        ));
    }
    let (first, last) = label.leases;
    let point = LeasePoint::from_lease(lease);
    if point < first {
        return Err(Error::invalid(format!(
            "the tables hold a copy that is older than the backup of {}: its leader was in epoch \
             {} and the backup was begun in epoch {}, at renewal {}; put back the copy that was \
             made with this label",
            label.commit, lease.epoch.0, first.epoch.0, first.renewal
        )));
    }
    if point > last || lease.bound > label.bound {
        return Err(Error::invalid(format!(
            "the tables were in use after the backup of {}: put the copy back, all of it and nothing \
             else, and start no process of the database before it is restored",
            label.commit
        )));
    }
    let ahead = AHEAD_MIN + rng.below(AHEAD_MIN);
    let bound = label.bound.checked_add(ahead).ok_or_else(|| {
        Error::unavailable("the database has used up its 2⁶³ timestamps; export and import it")
    })?;
    Ok(Lease {
        epoch: above(last.epoch, EPOCHS_AHEAD_MIN + rng.below(EPOCHS_AHEAD_MIN))?,
        renewal: 0,
        bound,
        fence_from: lease.fence_from.min(label.fence_from),
        wall: lease.wall,
        released: false,
        is_restoring: true,
        owner: Owner { nonce: label.id, address: Address::new(NAME)? },
    })
}

/// Resumes a restore that was cut short, with its bound. The epoch is random: if two runs find the
/// same lease, one of them gets it.
fn resumed(lease: &Lease, label: &Label, rng: &mut dyn Rng) -> Result<Lease> {
    if lease.owner.nonce != label.id {
        return Err(Error::invalid(format!(
            "the restore of another backup was cut short here, {:016x}: run that restore again, \
             or put the copy of this backup back",
            lease.owner.nonce
        )));
    }
    let epoch = above(lease.epoch, 1 + rng.below(EPOCHS_AHEAD_MIN))?;
    Ok(Lease { epoch, renewal: 0, ..lease.clone() })
}

fn above(epoch: Epoch, by: u64) -> Result<Epoch> {
    epoch.0.checked_add(by).map(Epoch).ok_or_else(|| {
        Error::unavailable("the database has used up its 2⁶⁴ epochs; export and import it")
    })
}

/// Returns the coordination map of the restored database, which begins at `first`. The map in the
/// tables must say the same for older starts as the label. If it already has the spans of the
/// restored database it stays as it is: a run that hung meanwhile must not undo them.
pub(super) fn restored_map(
    map: Option<&EncodingMap>,
    label: &Label,
    first: Timestamp,
) -> Result<EncodingMap> {
    let Some(map) = map else { return label.map.extended(first).with_gap(label.bound, first) };
    if map.last_gap() == Some((label.bound, first)) {
        return Ok(map.extended(first));
    }
    if map.last_gap() != label.map.last_gap() || !map.spans().eq(label.map.spans()) {
        return Err(Error::invalid(
            "the tables and the label name different encodings of the commit table, or other \
             restores: they are not of one backup",
        ));
    }
    map.extended(first).with_gap(label.bound, first)
}

#[cfg(test)]
mod tests {
    use carnet_base::{Encoding, SeededRng, WallTime};

    use super::super::label::tests::label;
    use super::*;

    fn at(number: u64) -> Timestamp {
        Timestamp::new(number).unwrap()
    }

    fn lease(epoch: u64, renewal: u64) -> Lease {
        Lease {
            epoch: Epoch(epoch),
            renewal,
            bound: at(20_000_001),
            fence_from: at(12_300),
            wall: (at(12_300), WallTime(5)),
            released: false,
            is_restoring: false,
            owner: Owner { nonce: 1, address: Address::new("h:1").unwrap() },
        }
    }

    fn admitted(lease: &Lease) -> Result<Lease> {
        admit(Some(lease), &label(), &mut SeededRng::new(1))
    }

    #[test]
    fn restore_begins_far_above_the_backup() {
        for renewal in [112, 120, 140] {
            let taken = admitted(&lease(7, renewal)).unwrap();
            assert!(taken.is_restoring && !taken.released);
            assert!(taken.bound.get() >= 20_000_001 + AHEAD_MIN, "{}", taken.bound);
            assert!(taken.epoch.0 >= 7 + EPOCHS_AHEAD_MIN);
            assert_eq!((taken.fence_from, taken.owner.nonce), (at(12_001), label().id));
        }
    }

    #[test]
    fn two_restores_of_one_backup_use_different_timestamps() {
        let taken =
            |seed| admit(Some(&lease(7, 112)), &label(), &mut SeededRng::new(seed)).unwrap();
        assert_ne!((taken(1).bound, taken(1).epoch), (taken(2).bound, taken(2).epoch));
    }

    #[test]
    fn other_copies_are_refused() {
        for (lease, why) in [
            (lease(7, 111), "older"),
            (lease(6, 500), "older"),
            (lease(7, 141), "in use after"),
            (lease(8, 0), "in use after"),
            (Lease { bound: at(20_000_002), ..lease(7, 130) }, "in use after"),
        ] {
            let error = admitted(&lease).unwrap_err().to_string();
            assert!(error.contains(why), "{error}");
        }
        let error = admit(None, &label(), &mut SeededRng::new(1)).unwrap_err().to_string();
        assert!(error.contains("no lease"), "{error}");
    }

    #[test]
    fn interrupted_restore_resumes_with_its_bound() {
        let first = admitted(&lease(7, 120)).unwrap();
        let again = admitted(&first).unwrap();
        assert_eq!(again.bound, first.bound);
        assert!(again.is_restoring && again.epoch > first.epoch);
        let beside = admit(Some(&first), &label(), &mut SeededRng::new(2)).unwrap();
        assert_ne!(beside.epoch, again.epoch, "both would take it");
        let last = Lease { epoch: Epoch(u64::MAX), ..first.clone() };
        assert!(admitted(&last).unwrap_err().to_string().contains("epochs"));
        let ended = Lease { is_restoring: false, released: true, ..again };
        assert!(admitted(&ended).unwrap_err().to_string().contains("already"));
        let other = Label { id: 3, ..label() };
        let error = admit(Some(&first), &other, &mut SeededRng::new(1)).unwrap_err();
        assert!(error.to_string().contains("5f0c83a1b2c3d4e5"), "{error}");
    }

    #[test]
    fn restored_map_is_the_labels_with_a_gap() {
        let (label, first) = (label(), at(90_000_000));
        let restored = |map| restored_map(map, &label, first);
        let map = restored(None).unwrap();
        assert_eq!(map.encoding_of(at(5)), Some(Encoding::V3));
        assert_eq!(map.encodings_between(label.bound, first).count(), 0);
        assert_eq!(restored(Some(&label.map)).unwrap(), map);
        assert_eq!(restored(Some(&map)).unwrap(), map, "again");
        let gone_on = map.extended(at(99_000_000)).followed_by(Encoding::V2).unwrap();
        assert_eq!(restored(Some(&gone_on)).unwrap(), gone_on, "that life has begun");
        let again = restored_map(Some(&gone_on), &label, at(95_000_000)).unwrap_err();
        assert!(again.to_string().contains("not of one backup"), "{again}");
        let other = EncodingMap::starting_with(Encoding::V2, at(30_000_000));
        assert!(restored(Some(&other)).is_err());
    }
}
