//! Outputs of the commands that were run.

use std::collections::{BTreeMap, BTreeSet};

use carnet_base::{Error, Result};

use super::command;

/// Outputs of commands: one for each run. Several figures may be of one run.
#[derive(Default)]
pub(super) struct Outputs {
    outputs: BTreeMap<String, Vec<String>>,
    /// Commands that failed, which are not run again.
    failed: BTreeSet<String>,
}

impl Outputs {
    /// Returns the outputs of a command.
    pub(super) fn of(&self, command: &str) -> &[String] {
        self.outputs.get(command).map_or(&[], Vec::as_slice)
    }

    /// Runs commands until there are this many outputs of each.
    pub(super) fn run<'c>(
        &mut self,
        commands: impl Iterator<Item = &'c str>,
        count: usize,
    ) -> Result<()> {
        for command in commands {
            let outputs = self.outputs.entry(command.to_owned()).or_default();
            while outputs.len() < count {
                if self.failed.contains(command) {
                    return Err(Error::unavailable(format!("{command} has failed before")));
                }
                let output = command::run(command);
                self.failed.extend(output.is_err().then(|| command.to_owned()));
                outputs.push(output?);
            }
        }
        Ok(())
    }

    #[cfg(test)]
    pub(super) fn with(command: &str, outputs: Vec<String>) -> Self {
        let outputs = BTreeMap::from([(command.to_owned(), outputs)]);
        Self { outputs, failed: BTreeSet::new() }
    }
}
