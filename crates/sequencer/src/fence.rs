//! Raising one row's epoch, whatever it is and whatever answers are lost.
//!
//! Fences only rise, and a row without an epoch counts as lower than any. A row that is *found* at
//! the wanted epoch may have been seen on one replica alone, so it is moved from the epoch to the
//! same once more: that is answered only when a majority has it.

use carnet_base::Epoch;

/// What became of a conditional move.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    Applied,
    /// The row has another epoch.
    Found(Option<Epoch>),
    /// Nobody knows, or not done.
    Nothing,
}

/// How far it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Progress {
    Again,
    Raised,
    /// A later leader was here.
    Outrun(Epoch),
}

/// The state of one row's fence.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fence {
    to: Epoch,
    from: Option<Epoch>,
}

impl Fence {
    pub(crate) const fn raising_to(to: Epoch) -> Self {
        Self { to, from: None }
    }

    /// Returns the epoch that the row is expected to have.
    pub(crate) const fn expected(&self) -> Option<Epoch> {
        self.from
    }

    pub(crate) fn answer(&mut self, answer: Answer) -> Progress {
        match answer {
            Answer::Applied => Progress::Raised,
            Answer::Found(Some(epoch)) if epoch > self.to => Progress::Outrun(epoch),
            Answer::Found(epoch) => {
                self.from = epoch;
                Progress::Again
            }
            Answer::Nothing => Progress::Again,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fence_rises_from_whatever_it_finds() {
        let mut fence = Fence::raising_to(Epoch(7));
        assert_eq!(fence.expected(), None);
        assert_eq!(fence.answer(Answer::Found(Some(Epoch(3)))), Progress::Again);
        assert_eq!(fence.expected(), Some(Epoch(3)));
        assert_eq!(fence.answer(Answer::Nothing), Progress::Again);
        // The one that timed out was applied after all, maybe on one replica.
        assert_eq!(fence.answer(Answer::Found(Some(Epoch(7)))), Progress::Again);
        assert_eq!(fence.expected(), Some(Epoch(7)));
        assert_eq!(fence.answer(Answer::Applied), Progress::Raised);
    }

    #[test]
    fn a_fence_never_falls() {
        let mut fence = Fence::raising_to(Epoch(7));
        assert_eq!(fence.answer(Answer::Found(Some(Epoch(8)))), Progress::Outrun(Epoch(8)));
    }
}
