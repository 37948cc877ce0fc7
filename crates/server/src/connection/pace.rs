//! Deadline for the arrival of a request.
//!
//! A client that sends a byte now and then never stalls, so a frame has a deadline as a whole: a
//! fixed time, plus time for its length at a minimum rate. Only time in which the server was ready
//! to read counts.

use std::time::Duration;

use tokio::time::Instant;

/// Minimum rate at which a request must arrive, in bytes per second.
const BYTES_PER_SECOND_MIN: u64 = 64 << 10;

/// Time spent on the arrival of the frame in progress.
#[derive(Debug, Default)]
pub(super) struct Pace {
    spent: Duration,
    /// Time of the last turn while a frame is in progress and the server reads.
    since: Option<Instant>,
}

/// Observations of a turn of the connection.
#[derive(Clone, Copy, Debug)]
pub(super) struct Turn {
    /// Whether a frame was completed, so that another one is in progress.
    pub(super) completed: bool,
    /// Whether a frame has begun and not ended.
    pub(super) mid_frame: bool,
    /// Whether the server is ready to read more of it.
    pub(super) reads: bool,
}

impl Pace {
    /// Records a turn of the connection.
    pub(super) fn turn(&mut self, now: Instant, turn: Turn) {
        if let Some(since) = self.since {
            self.spent += now.saturating_duration_since(since);
        }
        if turn.completed || !turn.mid_frame {
            self.spent = Duration::ZERO;
        }
        self.since = (turn.mid_frame && turn.reads).then_some(now);
    }

    /// Returns the deadline of the frame in progress, of `bytes` bytes; `None` without a frame, or
    /// while the server does not read.
    pub(super) fn deadline(&self, bytes: usize, fixed: Duration) -> Option<Instant> {
        let left = allowance(bytes, fixed).saturating_sub(self.spent);
        self.since.map(|since| since + left)
    }
}

/// Returns the time that a frame of this length may take.
fn allowance(bytes: usize, fixed: Duration) -> Duration {
    fixed + Duration::from_secs(bytes as u64) / u32::try_from(BYTES_PER_SECOND_MIN).unwrap_or(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIXED: Duration = Duration::from_secs(30);
    const READING: Turn = Turn { completed: false, mid_frame: true, reads: true };

    fn secs(secs: u64) -> Duration {
        Duration::from_secs(secs)
    }

    #[test]
    fn time_grows_with_length() {
        assert_eq!(allowance(0, FIXED), secs(30));
        assert_eq!(allowance(16 << 20, FIXED), secs(30 + 256));
    }

    #[test]
    fn bytes_that_trickle_do_not_extend_the_deadline() {
        let (mut pace, start) = (Pace::default(), Instant::now());
        for second in 0..20 {
            pace.turn(start + secs(second), READING);
        }
        assert_eq!(pace.deadline(64 << 10, FIXED), Some(start + secs(31)));
    }

    #[test]
    fn time_in_which_the_server_does_not_read_is_free() {
        let (mut pace, start) = (Pace::default(), Instant::now());
        pace.turn(start, READING);
        pace.turn(start + secs(10), Turn { reads: false, ..READING });
        assert_eq!(pace.deadline(0, FIXED), None);
        pace.turn(start + secs(100), READING);
        assert_eq!(pace.deadline(0, FIXED), Some(start + secs(120)));
    }

    #[test]
    fn next_frame_starts_anew() {
        let (mut pace, start) = (Pace::default(), Instant::now());
        pace.turn(start, READING);
        pace.turn(start + secs(20), Turn { completed: true, ..READING });
        assert_eq!(pace.deadline(0, FIXED), Some(start + secs(50)));
        pace.turn(start + secs(30), Turn { mid_frame: false, ..READING });
        assert_eq!(pace.deadline(0, FIXED), None);
        pace.turn(start + secs(40), READING);
        assert_eq!(pace.deadline(0, FIXED), Some(start + secs(70)));
    }
}
