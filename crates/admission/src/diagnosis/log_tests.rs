//! Log messages about refused and late statements.

use std::fmt;
use std::sync::Arc;

use carnet_base::WallTime;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

use super::*;

/// Collects the messages of events.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<String>>>);

impl Visit for &Log {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        if field.name() == "message" {
            self.0.lock().unwrap().push(format!("{value:?}"));
        }
    }
}

impl Subscriber for Log {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        event.record(&mut &*self);
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

struct Standing;

impl Clock for Standing {
    fn now(&self) -> Moment {
        Moment::default()
    }

    fn wall(&self) -> WallTime {
        WallTime(0)
    }
}

/// Adds a statement for each of many levels, which waited for every reason.
fn add_all(diagnosis: &Diagnosis, now: Moment) {
    let (held, wasted) = (Duration::ZERO, Duration::ZERO);
    let named = Arc::new(Named::new("ks.t", &"SELECT v\nFROM ks.t".repeat(50)));
    let waiter = Some(&Waiter { named, user: None });
    for number in 0..10 {
        let level = &Arc::from(format!("level {number}"));
        let waits = [Duration::from_secs(1); Why::ALL.len()];
        diagnosis.add(Ended { level, waits, held, wasted, waiter }, now);
    }
}

#[test]
fn log_names_the_bottleneck_every_thirty_seconds() {
    let (log, diagnosis) = (Log::default(), Diagnosis::new(Arc::new(Standing)));
    let mut said_at = Vec::new();
    tracing::subscriber::with_default(log.clone(), || {
        for tenth in 0..1_000 {
            let now = Moment(Duration::from_millis(100 * tenth));
            add_all(&diagnosis, now);
            let before = log.0.lock().unwrap().len();
            (0..10).for_each(|_| diagnosis.complain("was refused", now));
            said_at.extend((log.0.lock().unwrap().len() > before).then_some(tenth / 10));
        }
    });
    assert_eq!(said_at, [0, 30, 60, 90]);
    let said = log.0.lock().unwrap();
    assert_eq!(said.len(), 4);
    for message in said.iter() {
        assert!(message.starts_with("a statement was refused; of the last 10 s:\n"), "{message}");
        assert!((2..=20).contains(&message.lines().count()), "{message}");
    }
}
