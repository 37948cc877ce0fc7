use std::collections::BTreeMap;

use carnet_base::{Rng, SeededRng};

use super::*;

const SLICE: Duration = Duration::from_micros(200);

/// Statements on virtual processors; each one runs for one slice at a time.
struct Model {
    queue: RunQueue,
    statements: Vec<Statement>,
    waiting: BTreeMap<TurnId, usize>,
    running: Vec<usize>,
    /// Statements in the order of their granted turns.
    turns: Vec<usize>,
}

struct Statement {
    level: u64,
    shares: u32,
    used: Duration,
    needs: Duration,
}

impl Model {
    fn new(turns_max: usize) -> Self {
        let (statements, waiting) = (Vec::new(), BTreeMap::new());
        let (running, turns) = (Vec::new(), Vec::new());
        Self { queue: RunQueue::new(turns_max), statements, waiting, running, turns }
    }

    fn asking(&self, at: usize) -> Asking {
        let Statement { level, shares, used, .. } = self.statements[at];
        let begun = Moment(Duration::from_nanos(at as u64));
        Asking { level: LevelId(level), shares, begun, used }
    }

    fn add(&mut self, level: u64, shares: u32, needs: Duration) -> usize {
        let at = self.statements.len();
        self.statements.push(Statement { level, shares, used: Duration::ZERO, needs });
        let asked = self.queue.ask(self.asking(at));
        self.asked(at, asked);
        at
    }

    fn asked(&mut self, at: usize, asked: Asked) {
        match asked {
            Asked::Granted => self.grant(at),
            Asked::Waits(id) => assert_eq!(self.waiting.insert(id, at), None),
        }
    }

    fn grant(&mut self, at: usize) {
        self.running.push(at);
        self.turns.push(at);
    }

    /// Ends the turn that began first.
    fn step(&mut self) {
        let at = self.running.remove(0);
        self.statements[at].used += SLICE;
        let Statement { used, needs, level, .. } = self.statements[at];
        let next = if used < needs {
            let (asked, next) = self.queue.go_on(self.asking(at), SLICE);
            self.asked(at, asked);
            next
        } else {
            self.queue.end(LevelId(level), SLICE)
        };
        if let Some(id) = next {
            let at = self.waiting.remove(&id).unwrap();
            self.grant(at);
        }
        let busy = self.running.len();
        assert_eq!((self.queue.running(), self.queue.waiting()), (busy, self.waiting.len()));
        assert!(self.waiting.is_empty() || busy == self.queue.turns_max, "work is conserved");
    }

    fn turns_of(&self, at: usize) -> usize {
        self.turns.iter().filter(|turn| **turn == at).count()
    }
}

const LONG: Duration = Duration::from_secs(3_600);

#[test]
fn levels_share_turns_by_their_shares() {
    let mut model = Model::new(1);
    for _ in 0..4 {
        model.add(1, 1_000, LONG);
        model.add(2, 100, LONG);
    }
    (0..11_000).for_each(|_| model.step());
    let of_first: usize = [0, 2, 4, 6].iter().map(|at| model.turns_of(*at)).sum();
    assert!((9_900..=10_100).contains(&of_first), "{of_first} of 11,000");
}

/// If it lost its place at the end of each slice, it would get only every other turn.
#[test]
fn lone_statement_of_largest_level_keeps_its_turn() {
    let mut model = Model::new(2);
    let alone = model.add(1, 1_000, LONG);
    for _ in 0..4 {
        model.add(2, 10, LONG);
    }
    (0..1_000).for_each(|_| model.step());
    assert!(model.turns_of(alone) >= 480, "{} of 1,000", model.turns_of(alone));
}

#[test]
fn statement_that_used_little_comes_first() {
    let mut model = Model::new(1);
    for _ in 0..4 {
        model.add(1, 1_000, LONG);
    }
    (0..2_000).for_each(|_| model.step());
    let begun = model.turns.len();
    let small = model.add(1, 1_000, Duration::from_millis(1));
    (0..7).for_each(|_| model.step());
    // One turn is in progress, and one of twenty goes to the oldest.
    let turns = &model.turns[begun..];
    assert!(turns.iter().filter(|turn| **turn == small).count() == 5, "{turns:?}");
}

#[test]
fn long_statement_is_not_starved_by_small_ones() {
    let mut model = Model::new(1);
    let long = model.add(1, 1_000, LONG);
    (0..1_000).for_each(|_| model.step());
    let begun = model.turns_of(long);
    for _ in 0..4 {
        model.add(1, 1_000, SLICE);
    }
    for _ in 0..2_000 {
        model.step();
        model.add(1, 1_000, SLICE);
    }
    let turns = model.turns_of(long) - begun;
    assert!((90..=110).contains(&turns), "{turns} of 2,000");
}

/// Random arrivals, ends and cancellations; the model checks each step.
#[test]
fn every_turn_is_granted_once() {
    let seeds = 0..50;
    for seed in seeds {
        let mut rng = SeededRng::new(seed);
        let mut model = Model::new(1 + usize::try_from(rng.below(3)).unwrap());
        for _ in 0..500 {
            match rng.below(4) {
                0 => {
                    let (level, slices) = (rng.below(3), 1 + u32::try_from(rng.below(30)).unwrap());
                    model.add(level, 1 + u32::try_from(rng.below(1_000)).unwrap(), SLICE * slices);
                }
                1 => {
                    if let Some((id, at)) = model.waiting.pop_first() {
                        let level = LevelId(model.statements[at].level);
                        assert!(model.queue.cancel(level, id), "seed {seed}: it waited");
                        assert!(!model.queue.cancel(level, id), "seed {seed}: it is gone");
                    }
                }
                _ if model.running.is_empty() => {}
                _ => model.step(),
            }
        }
        while !model.running.is_empty() {
            model.step();
        }
        assert_eq!((model.queue.running(), model.queue.waiting()), (0, 0), "seed {seed}");
    }
}

#[test]
fn lone_statement_goes_on() {
    let mut queue = RunQueue::new(1);
    let asking = |used| {
        let (level, begun) = (LevelId(1), Moment::default());
        Asking { level, shares: 100, begun, used }
    };
    assert!(matches!(queue.ask(asking(Duration::ZERO)), Asked::Granted));
    assert!(matches!(queue.go_on(asking(SLICE), SLICE), (Asked::Granted, None)));
    let Asked::Waits(other) = queue.ask(asking(Duration::ZERO)) else { panic!("no turn is free") };
    let (asked, next) = queue.go_on(asking(BANDS[0]), SLICE);
    assert!(matches!(asked, Asked::Waits(_)), "it has used enough for the next band");
    assert_eq!(next, Some(other));
}

#[test]
fn bands_begin_at_their_limits() {
    let first = |used| {
        let mut queue = RunQueue::new(1);
        let asking = |used| {
            let (level, begun) = (LevelId(1), Moment::default());
            Asking { level, shares: 100, begun, used }
        };
        queue.ask(asking(Duration::ZERO));
        let waits = [used, Duration::ZERO].map(|used| queue.ask(asking(used)));
        let next = queue.end(LevelId(1), SLICE).unwrap();
        waits.iter().position(|asked| matches!(asked, Asked::Waits(id) if *id == next)).unwrap()
    };
    for limit in BANDS {
        assert_eq!(first(limit), 1, "the statement that has used nothing");
    }
    assert_eq!(first(BANDS[0] - Duration::from_nanos(1)), 0, "both are in the first band");
}
