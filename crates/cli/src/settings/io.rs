//! Settings of the I/O scheduler.

use std::time::Duration;

use carnet::IoOptions;
use carnet_storage::io::Goal;

use super::units::scaled;

/// Maximum goal in microseconds: ten seconds.
const GOAL_MICROS_MAX: u64 = 10_000_000;

/// I/O settings that are given.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Io {
    pub(crate) scheduler: Option<bool>,
    pub(crate) goal: Option<Goal>,
    pub(crate) nice: Option<u8>,
}

impl Io {
    pub(super) fn take(&mut self, name: &str, text: &str) -> Result<(), String> {
        match name {
            "scheduler" => self.scheduler = Some(switch(text)?),
            "read_latency" => self.goal = Some(goal(text)?),
            "nice" => self.nice = Some(nice(text)?),
            name => unreachable!("io.{name} is known and not taken"),
        }
        Ok(())
    }

    /// Returns the options, with defaults for settings that are not given.
    pub(crate) fn options(&self) -> IoOptions {
        let default = IoOptions::default();
        IoOptions {
            scheduler: self.scheduler.unwrap_or(default.scheduler),
            goal: self.goal.unwrap_or(default.goal),
            nice: self.nice.unwrap_or(default.nice),
            ..default
        }
    }
}

fn switch(text: &str) -> Result<bool, String> {
    match text {
        "on" => Ok(true),
        "off" => Ok(false),
        _ => Err("expected on or off".into()),
    }
}

fn goal(text: &str) -> Result<Goal, String> {
    if text == "measured" {
        return Ok(Goal::Measured);
    }
    match scaled(text, &[("us", 1), ("ms", 1_000), ("s", 1_000_000)]) {
        Some(micros @ 1..=GOAL_MICROS_MAX) => Ok(Goal::Fixed(Duration::from_micros(micros))),
        _ => Err("expected measured, or a time of up to 10s such as 2ms or 500us".into()),
    }
}

fn nice(text: &str) -> Result<u8, String> {
    match text.parse() {
        Ok(nice @ 0..=19) => Ok(nice),
        _ => Err("expected a number from 0 to 19".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn io_settings_are_checked() {
        let mut io = Io::default();
        assert_eq!(io.options(), IoOptions::default());
        let texts = [("scheduler", "off"), ("read_latency", "500us"), ("nice", "0")];
        texts.into_iter().try_for_each(|(name, text)| io.take(name, text)).unwrap();
        let IoOptions { scheduler, goal, nice, .. } = io.options();
        assert_eq!((scheduler, nice), (false, 0));
        assert_eq!(goal, Goal::Fixed(Duration::from_micros(500)));
        for (name, text) in [
            ("scheduler", "yes"),
            ("read_latency", "0ms"),
            ("read_latency", "11s"),
            ("nice", "20"),
            ("nice", "-1"),
        ] {
            assert!(io.take(name, text).is_err(), "{name} = {text}");
        }
    }
}
