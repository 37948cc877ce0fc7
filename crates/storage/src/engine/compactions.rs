//! State of an engine's compactions.

use std::sync::Arc;

use carnet_base::Signal;

use super::divided::Divided;
use super::quarantine::Quarantine;
use super::throttle::Throttle;
use crate::compaction::policy::CompactionState;
use crate::sync::Mutex;
use crate::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize};

/// State of an engine's compactions.
pub(super) struct Compactions {
    /// One signal per worker.
    pub(super) signals: Vec<Signal>,
    /// Running compactions, shared by the workers.
    pub(super) divided: Divided,
    /// Whether more than one worker should work.
    pub(super) wants_help: AtomicBool,
    /// State of the policy.
    pub(super) state: Mutex<CompactionState>,
    /// Tables that compaction cannot read.
    pub(super) quarantine: Arc<Quarantine>,
    /// Number of pending manual compactions; background compaction pauses while it is not zero.
    pub(super) manual: AtomicUsize,
    /// Throttles writers while compaction is behind.
    pub(super) throttle: Throttle,
    /// [`CompactionState::taken_permille`] at the start of the last compaction.
    pub(super) taken_permille: AtomicU64,
}

impl Compactions {
    pub(super) fn new(workers: usize) -> Self {
        Self {
            signals: (0..workers).map(|_| Signal::new()).collect(),
            divided: Mutex::default(),
            wants_help: AtomicBool::new(false),
            state: Mutex::default(),
            quarantine: Arc::default(),
            manual: AtomicUsize::new(0),
            throttle: Throttle::new(),
            taken_permille: AtomicU64::new(1000),
        }
    }
}
