//! Tests of the driver, with a clock that does not advance.

use std::sync::Arc;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use carnet_base::{Clock, Moment, WallTime};

use super::super::{Class, Config, Direction, Goal, Model, PIECE_BYTES, Turns, Waits};
use crate::io::Watch;

struct Still(Moment);

impl Clock for Still {
    fn now(&self) -> Moment {
        self.0
    }

    fn wall(&self) -> WallTime {
        WallTime(0)
    }
}

const NOW: Moment = Moment(Duration::from_secs(10));

fn turns(waits: Waits) -> Turns {
    // A piece takes an eighth of a second.
    let model = Model {
        read_bytes_per_second: 1 << 20,
        write_bytes_per_second: 1 << 20,
        ..Model::UNMEASURED
    };
    let config = Config { model: Some(model), goal: Goal::Measured, ..Config::default() };
    Turns::new(Arc::new(Still(NOW)), config, waits)
}

#[test]
fn second_turn_waits_for_the_end_of_the_first() {
    let turns = turns(Waits::Block);
    let first = turns.take(Class::Compaction, Direction::Write, PIECE_BYTES);
    thread::scope(|scope| {
        let (sender, receiver) = mpsc::channel();
        scope.spawn({
            let turns = &turns;
            move || {
                let turn = turns.take(Class::Flush, Direction::Write, PIECE_BYTES);
                sender.send(()).unwrap();
                drop(turn);
            }
        });
        while turns.totals()[Class::Flush.kind()].queued == 0 {
            thread::yield_now();
        }
        assert!(receiver.try_recv().is_err());
        drop(first);
        receiver.recv().unwrap();
    });
    let totals = turns.totals();
    let bytes = PIECE_BYTES as u64;
    let of = |class: Class| totals[class.kind()];
    assert_eq!((of(Class::Flush).bytes, of(Class::Compaction).bytes), (bytes, bytes));
    assert_eq!((of(Class::Flush).queued, of(Class::Flush).dispatched), (0, 1));
}

#[test]
fn release_ends_all_waits() {
    let turns = turns(Waits::Block);
    let first = turns.take(Class::Compaction, Direction::Write, PIECE_BYTES);
    thread::scope(|scope| {
        for class in [Class::Flush, Class::Compaction, Class::Maintenance] {
            let turns = &turns;
            scope.spawn(move || drop(turns.take(class, Direction::Read, PIECE_BYTES)));
        }
        while turns.totals().iter().map(|totals| totals.queued).sum::<u64>() < 3 {
            thread::yield_now();
        }
        turns.release();
    });
    // Later turns do not wait either.
    drop(turns.take(Class::Flush, Direction::Write, PIECE_BYTES));
    drop(first);
    assert!(turns.totals().iter().all(|totals| totals.queued == 0));
}

#[test]
fn shared_threads_pause_until_turns_are_paid() {
    let turns = turns(Waits::Pause);
    assert_eq!(turns.pause(), None);
    drop(turns.take(Class::Compaction, Direction::Write, PIECE_BYTES));
    let pause = turns.pause().unwrap();
    // The device's debt, minus the tokens in the bucket.
    assert!((Duration::from_millis(90)..Duration::from_millis(126)).contains(&pause), "{pause:?}");
}

#[test]
fn pieces_are_short_while_there_are_reads() {
    let turns = turns(Waits::Block);
    assert_eq!(turns.piece_bytes(1 << 20), 1 << 20);
    turns.ended(4096, turns.begun());
    assert_eq!(turns.piece_bytes(1 << 20), PIECE_BYTES);
    assert_eq!(turns.totals()[Class::Read.kind()].bytes, 4096);
}
