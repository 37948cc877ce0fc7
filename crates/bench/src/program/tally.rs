//! Answers to a load.

use std::io;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use super::Client;
use crate::overload::pause;
use crate::wire::{self, Response, ResponseKind};

/// Counts of answers to a load.
#[derive(Default)]
pub(crate) struct Tally {
    pub(crate) answered: AtomicU64,
    pub(crate) refused: AtomicU64,
    pub(crate) failed: AtomicU64,
    pub(crate) closed: AtomicU64,
    pub(crate) is_over: AtomicBool,
    /// The first refusal, and the first other error.
    pub(crate) errors: [OnceLock<String>; 2],
}

impl Tally {
    pub(crate) fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Relaxed)
    }

    pub(crate) fn note(&self, response: &Response) {
        let [refusal, error] = &self.errors;
        let count = match response.answer {
            ResponseKind::Good => &self.answered,
            ResponseKind::Overloaded => {
                refusal.get_or_init(|| response.error());
                // The retry delay of a refusal.
                pause(Duration::from_millis(100));
                &self.refused
            }
            ResponseKind::OtherError => {
                error.get_or_init(|| response.error());
                &self.failed
            }
        };
        count.fetch_add(1, Ordering::Relaxed);
    }
}

/// Sends a statement's text, over and over.
pub(crate) fn repeat(client: &mut Client, text: &str, tally: &Tally) -> io::Result<()> {
    while !tally.is_over() {
        tally.note(&client.answer(&wire::query_frame(1, text, Some(5_000)))?);
    }
    Ok(())
}
