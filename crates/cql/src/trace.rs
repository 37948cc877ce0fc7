//! Traces of statements: what a statement did, with the microseconds from its arrival.
//!
//! A client asks for the trace of a statement by a flag of its request. The answer has the id of a
//! session; its steps are then in `system_traces.sessions` and `events`, as in Cassandra:
//!
//! ```text
//! activity                                                source_elapsed
//! Admitted after 12 µs in the queue of reads                          14
//! Reading the snapshot at timestamp 4711                              61
//! Found 3 rows                                                       103
//! Waited 95 µs for reads that the device answers, …                  105
//! ```
//!
//! A statement without a trace pays for the test of an `Option`. Traces are kept in memory only, by the
//! server that ran the statement: the last [`SESSIONS_MAX`] of them, of at most [`BYTES_MAX`] together,
//! each for [`KEPT`].

use std::collections::VecDeque;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use carnet::Uuid;
use carnet_base::{Moment, WallTime, lock};

/// Maximum number of kept traces.
pub(crate) const SESSIONS_MAX: usize = 1_000;
/// Maximum bytes of all kept traces.
pub(crate) const BYTES_MAX: usize = 8 << 20;
/// Time for which a trace is kept; Cassandra's.
pub(crate) const KEPT: Duration = Duration::from_secs(24 * 3600);
/// Maximum number of events of a trace; later ones are counted in the last one.
const EVENTS_MAX: usize = 200;
/// Maximum bytes of a text in a trace.
const TEXT_MAX: usize = 2_048;
/// Estimated bytes of an event or parameter beside its text.
const ENTRY_BYTES: usize = 96;

/// The trace of a running statement.
#[derive(Debug)]
pub struct Trace {
    /// Id of the session, a time-based UUID.
    pub id: Uuid,
    pub(crate) client: IpAddr,
    /// User of the client; `None` without a log-in.
    pub(crate) user: Option<Arc<str>>,
    /// Kind of request: `QUERY`, as in Cassandra.
    pub(crate) request: &'static str,
    /// Parameters of the request, sorted by name.
    pub(crate) parameters: Vec<(&'static str, String)>,
    pub(crate) started: WallTime,
    begun: Moment,
    steps: Mutex<Steps>,
}

#[derive(Debug, Default)]
struct Steps {
    events: Vec<TraceEvent>,
    not_kept: u64,
    took: Duration,
}

/// A step of a statement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TraceEvent {
    pub(crate) activity: String,
    /// Time since the statement arrived.
    pub(crate) elapsed: Duration,
}

impl Trace {
    /// Creates the trace of a statement that arrived at a moment.
    pub(crate) fn new(
        id: Uuid,
        (client, user): (Option<IpAddr>, Option<Arc<str>>),
        request: &'static str,
        mut parameters: Vec<(&'static str, String)>,
        (started, begun): (WallTime, Moment),
    ) -> Self {
        parameters.iter_mut().for_each(|(_, value)| cut(value));
        parameters.sort();
        let client = client.unwrap_or(Ipv4Addr::LOCALHOST.into());
        let steps = Mutex::default();
        Self { id, client, user, request, parameters, started, begun, steps }
    }

    /// Adds a step that was reached at a moment.
    pub fn note(&self, now: Moment, activity: impl Into<String>) {
        let mut steps = lock(&self.steps);
        if steps.events.len() >= EVENTS_MAX {
            steps.not_kept += 1;
            return;
        }
        let mut activity = activity.into();
        cut(&mut activity);
        let elapsed = now.since(self.begun);
        steps.events.push(TraceEvent { activity, elapsed });
    }

    /// Returns the steps, and the time that the statement took.
    pub(crate) fn steps(&self) -> (Vec<TraceEvent>, Duration) {
        let steps = lock(&self.steps);
        let mut events = steps.events.clone();
        if steps.not_kept > 0 {
            let activity = format!("{} further events are not kept", steps.not_kept);
            events.push(TraceEvent { activity, elapsed: steps.took });
        }
        (events, steps.took)
    }

    fn end(&self, now: Moment) {
        lock(&self.steps).took = now.since(self.begun);
    }

    fn bytes(&self) -> usize {
        let steps = lock(&self.steps);
        let events = steps.events.iter().map(|event| event.activity.len() + ENTRY_BYTES);
        let parameters = self.parameters.iter().map(|(_, value)| value.len() + ENTRY_BYTES);
        size_of::<Self>() + events.chain(parameters).sum::<usize>()
    }
}

/// Cuts a long text at a character.
fn cut(text: &mut String) {
    if text.len() > TEXT_MAX {
        text.truncate(text.floor_char_boundary(TEXT_MAX));
        text.push('…');
    }
}

/// The traces that are kept.
#[derive(Debug, Default)]
pub(crate) struct Traces(Mutex<Kept>);

#[derive(Debug, Default)]
struct Kept {
    /// The traces with their bytes, the oldest first.
    traces: VecDeque<(Arc<Trace>, usize)>,
    bytes: usize,
}

impl Traces {
    /// Keeps the trace of a statement that ended at a moment.
    pub(crate) fn keep(&self, trace: Arc<Trace>, now: Moment) {
        trace.end(now);
        let bytes = trace.bytes();
        let mut kept = lock(&self.0);
        kept.bytes += bytes;
        kept.traces.push_back((trace, bytes));
        while kept.traces.len() > SESSIONS_MAX || kept.bytes > BYTES_MAX {
            let Some((_, bytes)) = kept.traces.pop_front() else { break };
            kept.bytes -= bytes;
        }
    }

    /// Returns the traces that are not too old, the oldest first.
    pub(crate) fn list(&self, now: WallTime) -> Vec<Arc<Trace>> {
        let kept = lock(&self.0);
        let kept_micros = i64::try_from(KEPT.as_micros()).unwrap_or(i64::MAX);
        let oldest = now.0.saturating_sub(kept_micros);
        let traces = kept.traces.iter().map(|(trace, _)| trace);
        traces.filter(|trace| trace.started.0 >= oldest).cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn trace(number: u128, query: &str, started: WallTime) -> Arc<Trace> {
        let parameters = vec![("query", query.to_owned())];
        let begun = Moment::default();
        Arc::new(Trace::new(
            Uuid::from_u128(number),
            (None, None),
            "request",
            parameters,
            (started, begun),
        ))
    }

    #[test]
    fn old_traces_give_way() {
        let traces = Traces::default();
        let day = WallTime(i64::try_from(KEPT.as_micros()).unwrap());
        for number in 0..SESSIONS_MAX as u128 + 5 {
            let started = if number == 7 { WallTime(0) } else { day };
            traces.keep(trace(number, "", started), Moment::default());
        }
        let ids = |now| {
            let list = traces.list(now);
            (list.len(), list[0].id.as_u128())
        };
        assert_eq!(ids(day), (SESSIONS_MAX, 5));
        assert_eq!(ids(WallTime(day.0 + 1)).0, SESSIONS_MAX - 1, "one is older than a day");
        let long = "x".repeat(2 * TEXT_MAX);
        for number in 0..40 {
            let trace = trace(number, &long, day);
            (0..EVENTS_MAX * 2).for_each(|_| trace.note(Moment::default(), long.clone()));
            traces.keep(trace, Moment::default());
        }
        let kept = traces.list(day);
        let (events, _) = kept[0].steps();
        assert_eq!(events.len(), EVENTS_MAX + 1);
        assert!(events[EVENTS_MAX].activity.starts_with("200 further"));
        assert!(kept.len() < 30, "{} traces of 400 KiB", kept.len());
    }
}
