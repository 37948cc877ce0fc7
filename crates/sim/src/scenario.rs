//! The kinds of databases that are simulated.

use std::str::FromStr;

/// The kind of database that is simulated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scenario {
    /// One process and its disk.
    Embedded,
    /// Three processes over a weak cluster.
    Cluster,
    /// One process under more load than its processors can serve.
    Overload,
}

impl Scenario {
    /// All scenarios, in the order in which they run.
    pub const ALL: [Self; 3] = [Self::Embedded, Self::Cluster, Self::Overload];

    /// Returns the name used on the command line.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Embedded => "embedded",
            Self::Cluster => "cluster",
            Self::Overload => "overload",
        }
    }
}

impl FromStr for Scenario {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        let found = Self::ALL.into_iter().find(|scenario| scenario.name() == name);
        found.ok_or_else(|| {
            format!("there is no scenario {name}; there are embedded, cluster, overload")
        })
    }
}
