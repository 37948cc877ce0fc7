//! GC watermarks that cannot be stored.

use std::io;

use super::*;
use crate::compaction::merge::Mark;

/// GC hook with a watermark that stands still.
struct Fixed(u64);

impl GcHook for Fixed {
    fn mark(&self) -> Mark {
        Mark { read: time(self.0), ..Mark::default() }
    }

    fn is_dropped(&self, _: TableId) -> bool {
        false
    }
}

/// After a crash, a snapshot above the stored watermark would read without the versions that a
/// compaction dropped.
#[test]
fn watermark_that_cannot_be_stored_drops_nothing() {
    for (kind, stops) in
        [(io::ErrorKind::StorageFull, false), (io::ErrorKind::PermissionDenied, true)]
    {
        let (disk, workers) = (SimDisk::new(1), Stepped::default());
        let engine = open(&disk, &workers, Options::default());
        let overwritten = |commit| {
            let (key, payload) = (key(1), Bytes::from(vec![7; 100]));
            let put = [Mutation::put_or_delete(&key, Some(&payload))];
            let prepared = engine.prepare(time(commit - 1), put).unwrap();
            drop(engine.append(prepared, || Ok::<_, Error>(time(commit))).unwrap());
        };
        (1..=4).for_each(|number| overwritten(10 * number));
        engine.flush().unwrap();
        assert!(engine.set_gc(Arc::new(Fixed(40))));
        match stops {
            true => disk.fail_at(disk.operations() + 1, kind),
            false => disk.full_from(disk.operations()),
        }
        assert_eq!(engine.core.hook().mark(), Mark::default(), "{kind:?}");
        assert_eq!((engine.forgotten(), engine.swept()), (Timestamp::ZERO, Timestamp::ZERO));
        assert_eq!(engine.check_writable().is_err(), stops, "{kind:?}");
        if !stops {
            disk.free_space();
            assert_eq!(engine.core.hook().mark().read, time(40));
            assert_eq!((engine.forgotten(), engine.swept()), (time(40), time(40)));
        }
    }
}
