//! Tests of the scheduler with a simulated device.

mod bench;
mod turns;

use std::time::Duration;

use carnet_base::Moment;

use self::bench::Bench;
use super::*;
use crate::disk::sim::DeviceOptions;

const SECOND: Duration = Duration::from_secs(1);

fn measured() -> Config {
    Config { model: Some(DeviceOptions::default().model()), ..Config::default() }
}

fn bench(config: Config) -> Bench {
    Bench::new(config, DeviceOptions::default(), 1)
}

/// Returns the device's maximum throughput with requests of 128 KiB, in bytes per second.
fn device_rate(direction: Direction) -> f64 {
    let DeviceOptions { channels, read_latency, write_latency, channel_bytes_per_second, .. } =
        DeviceOptions::default();
    let latency = match direction {
        Direction::Read => read_latency,
        Direction::Write => write_latency,
    };
    let bytes = PIECE_BYTES as f64;
    let takes = latency.as_secs_f64() + bytes / channel_bytes_per_second as f64;
    channels as f64 * bytes / takes
}

fn request(direction: Direction, bytes: usize, deadline: Moment) -> Request {
    Request { direction, bytes, deadline, splits: true }
}

fn popped(scheduler: &mut Scheduler, now: Moment) -> Piece {
    match scheduler.pop(now) {
        Dispatch::Piece(piece) => piece,
        other => panic!("{other:?}"),
    }
}

#[test]
fn work_is_conserved_with_and_without_model() {
    for config in [measured(), Config::default()] {
        let mut bench = bench(config);
        bench.endless(Class::Compaction, Direction::Write);
        bench.run(5 * SECOND);
        let rate = bench.rate(Class::Compaction);
        let most = device_rate(Direction::Write);
        assert!(rate >= 0.95 * most, "{rate:.0} of {most:.0} bytes a second");
        assert_eq!(bench.wasted, Duration::ZERO);
    }
}

#[test]
fn pessimistic_model_leaves_no_device_idle() {
    let mut model = DeviceOptions::default().model();
    model.write_bytes_per_second /= 8;
    let mut bench = bench(Config { model: Some(model), ..Config::default() });
    bench.endless(Class::Compaction, Direction::Write);
    bench.run(2 * SECOND);
    assert_eq!(bench.wasted, Duration::ZERO);
}

#[test]
fn read_p99_is_bounded_beside_endless_compaction() {
    // Reads alone take three fifths of the device's time.
    let p99 = |config, compacts: bool| {
        let mut bench = bench(config);
        bench.reads_per_second(21_000);
        if compacts {
            bench.endless(Class::Compaction, Direction::Write);
        }
        bench.run(10 * SECOND);
        (bench.p99(2 * SECOND, 10 * SECOND), bench.rate(Class::Compaction))
    };
    let goal = Duration::from_millis(2);
    let (alone, _) = p99(measured(), false);
    let (beside, rate) = p99(measured(), true);
    assert!(beside <= goal, "{beside:?}, alone {alone:?}");
    assert!(rate >= 0.05 * device_rate(Direction::Write), "{rate:.0} bytes a second");
    let (beside, _) = p99(Config { goal: Goal::Fixed(goal), ..Config::default() }, true);
    assert!(beside <= 2 * goal, "without a model {beside:?}, alone {alone:?}");
}

#[test]
fn shares_divide_background_work() {
    let shares = [1000, 500, 250];
    let mut bench = bench(Config { shares, ..measured() });
    bench.endless(Class::Flush, Direction::Write);
    bench.endless(Class::Compaction, Direction::Write);
    bench.endless(Class::Maintenance, Direction::Write);
    bench.run(5 * SECOND);
    let rates = [Class::Flush, Class::Compaction, Class::Maintenance].map(|it| bench.rate(it));
    let total: f64 = rates.iter().sum();
    for (rate, shares) in rates.iter().zip(shares) {
        let (part, wanted) = (rate / total, shares as f64 / 1750.0);
        assert!((part / wanted - 1.0).abs() < 0.05, "{part:.3} instead of {wanted:.3}");
    }
}

#[test]
fn class_with_tiny_shares_has_a_floor() {
    let mut bench = bench(Config { shares: [1_000_000, 1, 1], ..measured() });
    bench.endless(Class::Flush, Direction::Write);
    bench.endless(Class::Compaction, Direction::Write);
    bench.run(5 * SECOND);
    let (flush, compaction) = (bench.rate(Class::Flush), bench.rate(Class::Compaction));
    let part = compaction / (flush + compaction);
    assert!((0.04..0.06).contains(&part), "{part:.3}");
}

#[test]
fn compaction_keeps_its_floor_under_endless_reads() {
    // With a model: more reads than the device can serve. Without one: no read is fast enough.
    let goal = Goal::Fixed(Duration::from_micros(1));
    for (config, reads) in
        [(Config { goal, ..measured() }, 40_000), (Config { goal, ..Config::default() }, 30_000)]
    {
        let mut bench = bench(config);
        bench.endless(Class::Compaction, Direction::Write);
        bench.run(SECOND);
        bench.reads_per_second(reads);
        bench.run(3 * SECOND);
        let before = bench.bytes[&Class::Compaction];
        bench.run(3 * SECOND);
        let rate = (bench.bytes[&Class::Compaction] - before) as f64 / 3.0;
        let part = rate / device_rate(Direction::Write);
        assert!((0.035..0.15).contains(&part), "{part:.3} of the device, {config:?}");
    }
}

#[test]
fn floor_grows_with_the_write_throttle() {
    let goal = Goal::Fixed(Duration::from_micros(1));
    let part = |permille| {
        let mut bench = bench(Config { goal, ..measured() });
        bench.scheduler.set_floor(permille, bench.now);
        bench.endless(Class::Compaction, Direction::Write);
        bench.reads_per_second(20_000);
        bench.run(5 * SECOND);
        bench.rate(Class::Compaction) / device_rate(Direction::Write)
    };
    let (least, half) = (part(0), part(500));
    assert!((0.03..0.13).contains(&least), "{least:.3}");
    assert!((0.4..0.6).contains(&half), "{half:.3}");
}

#[test]
fn reads_recover_after_the_device_slows_down() {
    for model in [Some(DeviceOptions::default().model()), None] {
        let goal = Duration::from_micros(1_500);
        let mut bench = bench(Config { model, goal: Goal::Fixed(goal), ..Config::default() });
        bench.reads_per_second(8_000);
        bench.endless(Class::Compaction, Direction::Write);
        bench.change(5 * SECOND, |device, now| device.set_pace(2000, now));
        bench.run(10 * SECOND);
        let p99 = bench.p99(6 * SECOND, 10 * SECOND);
        assert!(p99 <= goal * 3 / 2, "{p99:?} with {model:?}");
    }
}

#[test]
fn wrong_model_is_corrected_by_latency() {
    let mut model = DeviceOptions::default().model();
    (model.write_bytes_per_second, model.read_iops) = (2_000_000_000, 400_000);
    let goal = Duration::from_millis(3);
    let mut bench =
        bench(Config { model: Some(model), goal: Goal::Fixed(goal), ..Config::default() });
    bench.reads_per_second(15_000);
    bench.endless(Class::Compaction, Direction::Write);
    bench.run(10 * SECOND);
    // It must try higher rates now and then, and detects by slow reads that they were too high.
    let windows = (10..100).map(|at| bench.p99(SECOND / 10 * at, SECOND / 10 * (at + 1)));
    let slow = windows.filter(|p99| *p99 > goal).count();
    assert!(slow <= 13, "{slow} of 90 windows");
    assert!(bench.rate(Class::Compaction) > 0.4 * device_rate(Direction::Write));
}

/// Reads are slow at times regardless of background work.
#[test]
fn useless_back_off_is_reverted() {
    let mut backoff = Backoff::new(Goal::Measured, None);
    let floor = 50_000_000;
    let (mut now, mut moved) = (Moment::default(), 0);
    for window in 0..200 {
        for read in 0..50 {
            backoff.read(Duration::from_millis(if read == 0 { 8 } else { 1 }));
        }
        let cost = backoff.rate().unwrap_or(1_000_000_000) / 10;
        backoff.moved(cost);
        moved += if window >= 100 { cost } else { 0 };
        now = now.after(SECOND / 10);
        assert!(backoff.tick(floor, now));
    }
    assert!(moved >= 9_000_000_000, "{moved} of 10 seconds");
}

#[test]
fn stall_of_the_device_passes() {
    let mut bench = bench(measured());
    bench.reads_per_second(10_000);
    bench.endless(Class::Compaction, Direction::Write);
    bench.change(3 * SECOND, |device, now| device.stall(Duration::from_millis(50), now));
    bench.run(6 * SECOND);
    let (before, after) = (bench.p99(SECOND, 3 * SECOND), bench.p99(4 * SECOND, 6 * SECOND));
    assert!(after <= before * 3 / 2, "{after:?} after {before:?}");
}

#[test]
fn seed_gives_one_trace() {
    let trace = |seed| {
        let mut bench = Bench::new(measured(), DeviceOptions::default(), seed);
        bench.reads_per_second(20_000);
        bench.endless(Class::Compaction, Direction::Write);
        bench.endless(Class::Flush, Direction::Write);
        bench.change(SECOND, |device, now| device.stall(Duration::from_millis(50), now));
        bench.run(2 * SECOND);
        bench.trace
    };
    assert_eq!(trace(7), trace(7));
    assert_ne!(trace(7), trace(8));
}

#[test]
fn log_comes_first_and_reads_by_deadline() {
    let (now, at) = (Moment::default(), |millis| Moment(Duration::from_millis(millis)));
    let mut scheduler = Scheduler::new(Config::default());
    let write = |bytes| request(Direction::Write, bytes, now);
    scheduler.push(Class::Compaction, write(100), now);
    let late = scheduler.push(Class::Read, request(Direction::Read, 4096, at(50)), now);
    let early = scheduler.push(Class::Read, request(Direction::Read, 4096, at(5)), now);
    let wal = scheduler.push(Class::Wal, request(Direction::Write, 4096, at(90)), now);
    let order: Vec<_> = (0..3).map(|_| popped(&mut scheduler, now).id).collect();
    assert_eq!(order, [wal, early, late]);
    assert_eq!(popped(&mut scheduler, now).class, Class::Compaction);
    assert_eq!(scheduler.pop(now), Dispatch::Idle);
}

#[test]
fn background_request_is_split_into_pieces() {
    let now = Moment::default();
    let mut scheduler = Scheduler::new(Config::default());
    let bytes = 2 * PIECE_BYTES + 1;
    let id = scheduler.push(Class::Flush, request(Direction::Write, bytes, now), now);
    let pieces: Vec<_> = (0..3).map(|_| popped(&mut scheduler, now)).collect();
    let ranges: Vec<_> = pieces.iter().map(|piece| piece.bytes.clone()).collect();
    assert_eq!(ranges, [0..PIECE_BYTES, PIECE_BYTES..2 * PIECE_BYTES, bytes - 1..bytes]);
    assert_eq!(pieces.iter().filter(|piece| piece.is_last).count(), 1);
    for _ in 0..3 {
        assert!(scheduler.complete(id, now).is_some());
    }
    assert_eq!(scheduler.complete(id, now), None);
}

#[test]
fn cancelled_request_spends_no_tokens() {
    let now = Moment(SECOND);
    let next_at = |cancels: bool| {
        let mut scheduler = Scheduler::new(measured());
        let read = |bytes| request(Direction::Read, bytes, now);
        let first = scheduler.push(Class::Read, read(4096), now);
        assert_eq!(popped(&mut scheduler, now).id, first);
        if cancels {
            let ids: Vec<_> =
                (0..10).map(|_| scheduler.push(Class::Read, read(1 << 20), now)).collect();
            assert!(ids.into_iter().all(|id| scheduler.cancel(id)));
            let flush = scheduler.push(Class::Flush, read(1 << 20), now);
            assert!(scheduler.cancel(flush) && !scheduler.cancel(flush));
            assert!(!scheduler.cancel(first), "it is in the device");
        }
        scheduler.push(Class::Read, read(700_000), now);
        scheduler.push(Class::Read, read(700_000), now);
        popped(&mut scheduler, now);
        match scheduler.pop(now) {
            Dispatch::WaitUntil(at) => (at, scheduler.queued()),
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(next_at(true), next_at(false));
}

#[test]
fn wait_is_for_the_next_request_only() {
    let now = Moment(SECOND);
    let mut scheduler = Scheduler::new(measured());
    let read = |bytes| request(Direction::Read, bytes, now);
    // All tokens, and a debt of the same amount.
    scheduler.pass(Class::Read, read(1_500_000), now);
    for _ in 0..10 {
        scheduler.push(Class::Read, read(4096), now);
    }
    let Dispatch::WaitUntil(at) = scheduler.pop(now) else { panic!("there were tokens") };
    let cost = DeviceOptions::default().model().cost_nanos(&read(4096));
    let debt = DeviceOptions::default().model().cost_nanos(&read(1_500_000)) - 1_500_000;
    assert_eq!(at.since(now), Duration::from_nanos(debt + cost));
    popped(&mut scheduler, at);
}
