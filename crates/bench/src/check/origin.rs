//! Machine, date and commit of a recorded figure.

use std::path::Path;
use std::process::Command;

use carnet_base::{Error, Result};
use serde::{Deserialize, Serialize};

/// Machine, date and commit of a recorded figure.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Origin {
    pub(super) machine: String,
    pub(super) date: String,
    pub(super) commit: String,
}

impl Origin {
    /// Describes this machine, today and the commit of the working tree. The documents may have
    /// changed: recorded figures change them.
    pub(super) fn of_this_run(docs: &Path) -> Result<Self> {
        let docs = docs.to_string_lossy();
        let git = |words: &str| {
            let words = ["-C", &*docs].into_iter().chain(words.split(' '));
            output("git", &words.collect::<Vec<_>>())
        };
        let code = ":(top) :(top,exclude)*.md :(top,exclude)docs/figures.json";
        let changed = git(&format!("status --porcelain --untracked-files=no -- {code}"))?;
        let commit = git("rev-parse --short=10 HEAD")?;
        let mark = if changed.is_empty() { "" } else { " with changes" };
        Ok(Self {
            machine: machine(&std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default()),
            date: output("date", &["-u", "+%F"])?,
            commit: commit + mark,
        })
    }
}

/// Describes the processors that a text of the kernel lists.
fn machine(processors: &str) -> String {
    let value = |name: &str| {
        let line = processors.lines().find(|line| line.starts_with(name))?;
        line.split_once(':').map(|(_, value)| value.trim().to_owned())
    };
    let count = processors.lines().filter(|line| line.starts_with("processor")).count();
    let model = value("model name").unwrap_or_else(|| std::env::consts::ARCH.to_owned());
    format!("{count} × {model}")
}

/// Returns the output of a program.
fn output(program: &str, arguments: &[&str]) -> Result<String> {
    let output = Command::new(program)
        .args(arguments)
        .output()
        .map_err(|error| Error::unavailable(format!("cannot run {program}")).with_source(error))?;
    if !output.status.success() {
        return Err(Error::invalid(format!("{program} {} has failed", arguments.join(" "))));
    }
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn machine_has_processors_and_a_model() {
        let text =
            "processor\t: 0\nmodel name\t: AMD EPYC\nprocessor\t: 1\nmodel name\t: AMD EPYC\n";
        assert_eq!(machine(text), "2 × AMD EPYC");
    }
}
