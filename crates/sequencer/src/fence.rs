//! Raises the epoch of one row, from any epoch and with any answers lost.
//!
//! Epochs of rows only rise, and a row without an epoch counts as the lowest. A row that is *found*
//! at the wanted epoch may have been seen on one replica only. It is therefore set from that epoch
//! to the same epoch once more: a majority has it once that write is applied.

use carnet_base::Epoch;

/// The result of a conditional write of the epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EpochWrite {
    Applied,
    /// The row has another epoch.
    Found(Option<Epoch>),
    /// The write failed, or its outcome is unknown.
    Nothing,
}

/// Progress of a fence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Progress {
    Again,
    Raised,
    /// A later leader has fenced the row.
    Superseded(Epoch),
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

    /// Returns the epoch that the next conditional write expects.
    pub(crate) const fn expected(&self) -> Option<Epoch> {
        self.from
    }

    pub(crate) fn answer(&mut self, answer: EpochWrite) -> Progress {
        match answer {
            EpochWrite::Applied => Progress::Raised,
            EpochWrite::Found(Some(epoch)) if epoch > self.to => Progress::Superseded(epoch),
            EpochWrite::Found(epoch) => {
                self.from = epoch;
                Progress::Again
            }
            EpochWrite::Nothing => Progress::Again,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fence_rises_from_any_epoch() {
        let mut fence = Fence::raising_to(Epoch(7));
        assert_eq!(fence.expected(), None);
        assert_eq!(fence.answer(EpochWrite::Found(Some(Epoch(3)))), Progress::Again);
        assert_eq!(fence.expected(), Some(Epoch(3)));
        assert_eq!(fence.answer(EpochWrite::Nothing), Progress::Again);
        // The write that timed out was applied after all, maybe on one replica.
        assert_eq!(fence.answer(EpochWrite::Found(Some(Epoch(7)))), Progress::Again);
        assert_eq!(fence.expected(), Some(Epoch(7)));
        assert_eq!(fence.answer(EpochWrite::Applied), Progress::Raised);
    }

    #[test]
    fn a_fence_never_falls() {
        let mut fence = Fence::raising_to(Epoch(7));
        assert_eq!(fence.answer(EpochWrite::Found(Some(Epoch(8)))), Progress::Superseded(Epoch(8)));
    }
}
