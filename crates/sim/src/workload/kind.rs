//! The kinds of transactions.

use std::str::FromStr;

/// A kind of transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Workload {
    /// Appends to lists in one cell each, and reads of them.
    Lists,
    /// Appends to lists with a cell for each element, and range reads of them.
    Rows,
    /// Blind writes of registers, and reads.
    Registers,
    /// Transfers between accounts: the sum is constant.
    Bank,
    /// Write skew: one of two doctors stays on call.
    Doctors,
    /// Phantoms: no more seats are booked than exist.
    Seats,
    /// Long read-only scans, including snapshots that are given back and taken up again.
    Scan,
    /// Time-travel reads, by timestamp and by wall time.
    Past,
    /// Changes of single columns and counters of rows that are not read.
    Columns,
    /// Changes of rows with indexes and views, where the database maintains these.
    Derived,
    /// Rows with a time to live, and counters with many additions, alone over a cluster whose clocks
    /// differ by less than a minute.
    Expiring,
}

impl Workload {
    /// The kinds of workloads that run together.
    pub const ALL: [Self; 10] = [
        Self::Lists,
        Self::Rows,
        Self::Registers,
        Self::Bank,
        Self::Doctors,
        Self::Seats,
        Self::Scan,
        Self::Past,
        Self::Columns,
        Self::Derived,
    ];

    /// Returns the name used on the command line.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Lists => "lists",
            Self::Rows => "rows",
            Self::Registers => "registers",
            Self::Bank => "bank",
            Self::Doctors => "doctors",
            Self::Seats => "seats",
            Self::Scan => "scan",
            Self::Past => "past",
            Self::Columns => "columns",
            Self::Derived => "derived",
            Self::Expiring => "expiring",
        }
    }
}

impl FromStr for Workload {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        let mut workloads = Self::ALL.into_iter().chain([Self::Expiring]);
        workloads.find(|workload| workload.name() == name).ok_or_else(|| {
            let names = Self::ALL.map(Self::name).join(", ");
            format!("there is no workload {name}; there are {names}, {}", Self::Expiring.name())
        })
    }
}
