//! Settings of the server's log.

use std::time::Duration;

use tracing_subscriber::filter::{LevelFilter, Targets};

use super::limits::time;

/// Settings of the log that are given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Log {
    /// Levels by module.
    pub(crate) levels: Option<String>,
    pub(crate) format: LogFormat,
    /// Duration from which on statements are logged; `None` if none are.
    pub(crate) slow: Option<Duration>,
}

/// Default duration of a slow statement, as in Cassandra.
const SLOW: Duration = Duration::from_millis(500);

impl Default for Log {
    fn default() -> Self {
        Self { levels: None, format: LogFormat::default(), slow: Some(SLOW) }
    }
}

/// Format of the lines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum LogFormat {
    #[default]
    Text,
    Json,
}

impl Log {
    pub(super) fn take(&mut self, name: &str, text: &str) -> Result<(), String> {
        match name {
            "levels" => {
                levels(text)?;
                self.levels = Some(text.to_owned());
            }
            "format" => self.format = format(text)?,
            "slow" if text == "off" => self.slow = None,
            "slow" => self.slow = Some(time(text).map_err(|why| format!("{why}, or off"))?),
            name => unreachable!("log.{name} is known and not taken"),
        }
        Ok(())
    }
}

fn format(text: &str) -> Result<LogFormat, String> {
    match text {
        "text" => Ok(LogFormat::Text),
        "json" => Ok(LogFormat::Json),
        _ => Err("expected text or json".into()),
    }
}

/// Returns the levels of a server without settings.
pub(crate) fn default_levels() -> Targets {
    // The cluster's driver logs each connection at INFO, and each warning of the cluster at WARN:
    // Cassandra warns of reads of several partitions, which Carnet does on purpose.
    Targets::new()
        .with_default(LevelFilter::INFO)
        .with_target("scylla", LevelFilter::WARN)
        .with_target("scylla::network::connection", LevelFilter::ERROR)
}

/// Parses levels: `info`, `debug`, or `info,carnet_storage=debug,scylla=off`. Modules that are not named
/// keep their defaults.
pub(crate) fn levels(text: &str) -> Result<Targets, String> {
    let expected = || {
        "expected a level (error, warn, info, debug, trace, off), or levels by module such as \
         info,carnet_storage=debug"
            .to_owned()
    };
    // A word alone would be the name of a module, with all of its lines.
    let is_clear = |part: &str| part.contains('=') || part.trim().parse::<LevelFilter>().is_ok();
    if !text.split(',').all(is_clear) {
        return Err(expected());
    }
    let given: Targets = text.parse().map_err(|_| expected())?;
    let default = given.default_level().unwrap_or(LevelFilter::INFO);
    let mut targets = default_levels().with_default(default);
    targets.extend(given);
    Ok(targets)
}

#[cfg(test)]
mod tests {
    use tracing::Level;

    use super::*;

    #[test]
    fn slow_statements_have_a_duration() {
        let mut log = Log::default();
        assert_eq!(log.slow, Some(SLOW));
        log.take("slow", "2s").unwrap();
        assert_eq!(log.slow, Some(Duration::from_secs(2)));
        log.take("slow", "off").unwrap();
        assert_eq!(log.slow, None);
        assert!(log.take("slow", "long").unwrap_err().ends_with("2m, or off"));
    }

    #[test]
    fn levels_are_those_of_modules_over_defaults() {
        let targets = levels("warn,carnet_storage=debug").unwrap();
        assert!(targets.would_enable("carnet_storage::engine", &Level::DEBUG));
        assert!(!targets.would_enable("carnet_server", &Level::INFO));
        assert!(targets.would_enable("carnet_server", &Level::WARN));
        let quiet = levels("debug").unwrap();
        assert!(quiet.would_enable("carnet_server", &Level::DEBUG));
        assert!(!quiet.would_enable("scylla::network::connection", &Level::WARN));
        assert!(levels("scylla=info").unwrap().would_enable("scylla::cluster", &Level::INFO));
        assert!(levels("loud").unwrap_err().contains("expected a level"));
    }
}
