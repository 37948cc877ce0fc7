//! The log of `carnet serve`: its levels, by module, and its format.
//!
//! ```text
//!   RUST_LOG ─▶ levels ─┐
//!   [log] levels ───────┴─▶ filter, which SIGHUP replaces ─▶ text or JSON ─▶ standard error
//! ```

use std::io::{self, IsTerminal};
use std::path::Path;

use anyhow::{Context, Result, anyhow};
use tracing::Subscriber;
use tracing_subscriber::Layer;
use tracing_subscriber::Registry;
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::prelude::*;
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::reload::{self, Handle};

use crate::settings::{self, Log, LogFormat, Settings};

/// Environment variable with levels. It comes before the settings.
const VARIABLE: &str = "RUST_LOG";

/// Name of the setting of the levels.
pub(crate) const LEVELS: &str = "log.levels";

/// Level of a server without settings, as the settings show it.
const DEFAULT_LEVEL: &str = "info";

/// Target of the audit log's entries, if they go to this log.
const AUDIT: &str = "audit";

/// The log of this process. Its levels can be replaced.
pub(crate) struct Logging {
    levels: Handle<Targets, Registry>,
}

impl Logging {
    /// Starts the log.
    ///
    /// # Errors
    ///
    /// The levels cannot be parsed, or the process has a log already.
    pub(crate) fn start(log: &Log) -> Result<Self> {
        let (filter, levels) = reload::Layer::new(targets(log)?);
        tracing_subscriber::registry().with(lines(log.format).with_filter(filter)).try_init()?;
        Ok(Self { levels })
    }

    /// Returns `true` if the environment sets the levels.
    pub(crate) fn is_of_variable() -> bool {
        variable().is_some()
    }

    /// Reads the levels of a settings file again, and returns their text.
    ///
    /// # Errors
    ///
    /// The file cannot be read or has errors; the levels stay.
    pub(crate) fn reload(&self, settings: &Path) -> Result<String> {
        let log = Settings::read(settings)?.log;
        self.levels.reload(targets(&log)?).context("the log does not take other levels")?;
        Ok(Self::levels_in_effect(&log).unwrap_or_else(|| DEFAULT_LEVEL.to_owned()))
    }

    /// Returns the levels of the environment, or else of the settings; `None` for the default.
    pub(crate) fn levels_in_effect(log: &Log) -> Option<String> {
        variable().or_else(|| log.levels.clone())
    }
}

/// Returns the levels of the environment, or else of the settings.
fn targets(log: &Log) -> Result<Targets> {
    // Entries of the audit log are no matter of levels.
    Ok(levels(log)?.with_target(AUDIT, LevelFilter::INFO))
}

fn levels(log: &Log) -> Result<Targets> {
    let variable = variable();
    let (levels, source) = match (&variable, &log.levels) {
        (Some(levels), _) => (levels.as_str(), VARIABLE),
        (None, Some(levels)) => (levels.as_str(), LEVELS),
        (None, None) => return Ok(settings::default_levels()),
    };
    settings::levels(levels).map_err(|why| anyhow!("{source} {levels:?}: {why}"))
}

fn variable() -> Option<String> {
    std::env::var(VARIABLE).ok().filter(|levels| !levels.is_empty())
}

fn lines<S>(format: LogFormat) -> Box<dyn Layer<S> + Send + Sync>
where
    S: Subscriber + for<'span> LookupSpan<'span>,
{
    let lines = tracing_subscriber::fmt::layer().with_writer(io::stderr);
    match format {
        LogFormat::Text => lines.with_ansi(io::stderr().is_terminal()).with_target(false).boxed(),
        LogFormat::Json => lines.json().flatten_event(true).with_ansi(false).boxed(),
    }
}

#[cfg(test)]
mod tests {
    use tracing::Level;

    use super::*;
    use crate::place::Place;
    use crate::settings::Memory;

    #[test]
    fn default_level_is_that_of_the_settings() {
        let place = Place::Directory("data".into());
        let settings = Settings::default();
        let memory = Memory::divide(&settings, Some(4 << 30)).unwrap();
        let all = settings.effective(&memory, &place);
        assert!(all.contains(&(LEVELS.to_owned(), DEFAULT_LEVEL.to_owned())), "{all:?}");
    }

    #[test]
    fn levels_leave_out_no_entry_of_the_audit_log() {
        for levels in ["error", "off", "info,audit=off"] {
            let log = Log { levels: Some(levels.to_owned()), ..Log::default() };
            assert!(targets(&log).unwrap().would_enable(AUDIT, &Level::INFO), "{levels}");
        }
    }
}
