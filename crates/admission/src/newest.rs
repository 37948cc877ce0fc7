//! Whether several groups of requests compete: levels, or tenants.

use std::time::Duration;

use carnet_base::Moment;

/// Time for which groups count as competing after a request of one has followed a request of another.
const COMPETING: Duration = Duration::from_millis(20);

/// Group of the newest request.
#[derive(Debug)]
pub(super) struct Newest<G> {
    group: Option<G>,
    /// Last time at which the group changed.
    changed: Option<Moment>,
}

impl<G> Default for Newest<G> {
    fn default() -> Self {
        Self { group: None, changed: None }
    }
}

impl<G: PartialEq> Newest<G> {
    /// Records the group of a new request. Returns `true` while several groups compete.
    pub(super) fn competes(&mut self, group: G, now: Moment) -> bool {
        let is_other = self.group.as_ref().is_some_and(|newest| *newest != group);
        self.group = Some(group);
        if is_other {
            self.changed = Some(now);
        }
        self.changed.is_some_and(|changed| now.since(changed) < COMPETING)
    }
}
