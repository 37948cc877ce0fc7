//! The judgement of a run.

use std::time::Duration;

use carnet_base::Moment;

use super::phases::{FACTORS, RECOVERS_IN};
use super::setup::{BATCH, GOLD, SILVER};
use super::tally::Span;
use super::world::{SERVER, World};

/// Maximum length of a poll.
const POLL_MAX: Duration = Duration::from_millis(1);

/// Compares the goodput at the largest load with the best, and afterwards with the offered load. At
/// least nine tenths must remain, less the random variation: three standard deviations of a count
/// of that size.
#[expect(clippy::cast_precision_loss, reason = "counts are small")]
pub(super) fn goodput(world: &World, spans: &[Span], after: Span) -> Result<(), String> {
    let tally = world.tally.borrow();
    let good: Vec<usize> = spans.iter().map(|span| tally.count(GOLD, *span).1).collect();
    let peak = good.iter().max().copied().unwrap_or_default();
    let least = 0.9 * peak as f64 - 3.0 * (peak as f64).sqrt();
    if good.last().is_none_or(|last| (*last as f64) < least) {
        return Err(format!("goodput falls under overload: {good:?} at {FACTORS:?} capacities"));
    }
    drop(tally);
    recovered(world, after)
}

/// Checks that a small load is served again some time after an overload or a pause of the store.
pub(super) fn recovered(world: &World, after: Span) -> Result<(), String> {
    let (due, good, _) = world.tally.borrow().count(GOLD, after);
    if good * 100 < due * 95 {
        return Err(format!("{good} of {due} answers are good {RECOVERS_IN:?} after the load"));
    }
    Ok(())
}

/// Checks that interactive statements of each level completed in each part, and that batch
/// statements, which always wait, used at least a quarter of their share.
pub(super) fn nothing_starves(
    world: &World,
    spans: impl Iterator<Item = Span>,
) -> Result<(), String> {
    for span in spans {
        let Span { from: Moment(from), to: Moment(to), used } = span;
        let processors = u32::try_from(world.setup.processors).unwrap_or(u32::MAX);
        let has_share = used[BATCH] * 48 >= (to - from) * processors;
        let is_done = |level| world.tally.borrow().count(level, span).2 > 0;
        if !is_done(GOLD) || !is_done(SILVER) || !has_share {
            return Err(format!("a level starves from {from:?} to {to:?}: used {used:?}"));
        }
    }
    Ok(())
}

/// Compares the use of two saturated levels with their shares, 1,000 and 100.
pub(super) fn shares(saturated: Span) -> Result<(), String> {
    let [gold, silver] = [GOLD, SILVER].map(|level| saturated.used[level].as_secs_f64());
    if (9.0..=11.0).contains(&(gold / silver)) {
        return Ok(());
    }
    Err(format!("levels of 1000 and 100 shares used {gold:.3} s and {silver:.3} s"))
}

/// Checks that everything was given back, and that no poll was long.
pub(super) fn at_the_end(world: &World) -> Result<(), String> {
    let figures = world.figures();
    if figures.iter().any(|figures| figures.running + figures.waiting > 0) {
        return Err(format!("the gate is not empty at the end: {figures:?}"));
    }
    if !world.turns.is_empty() {
        return Err("a statement has a turn at the end".to_owned());
    }
    let longest = world.executor.polls(SERVER).longest();
    if longest > POLL_MAX {
        return Err(format!("a poll took {longest:?}"));
    }
    Ok(())
}
