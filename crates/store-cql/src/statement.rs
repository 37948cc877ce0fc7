//! The text of every statement that is sent. Pure.

use carnet_base::TableId;
use carnet_store::cluster::CommitTable;

/// A statement that is prepared once and sent often.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Statement {
    /// Statements about the versions of a table's cells.
    Cells(TableId, Cells),
    /// Statements about the entries of a commit table.
    Commits(CommitTable, Commits),
    /// Statements about the registers.
    Registers(Registers),
    /// Selects the name of a keyspace if it exists.
    KeyspaceName,
    /// Selects the names of the tables of a keyspace.
    TableNames,
    /// Selects a setting of the node that answers.
    Setting,
}

/// Statements about a table of cells. "Newest" means the newest version of each cell up to a start.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Cells {
    Write,
    Stamp,
    Delete,
    DeleteOlder,
    /// Newest version of one cell.
    Newest,
    /// Newest versions of one cell, up to a number.
    Chain,
    /// Newest versions of the cells with some clustering keys.
    Named(Partitions),
    /// Cells of a partition from a clustering key on.
    Slice(Versions, Upper),
    /// Clustering keys of a partition's cells from the last to the first.
    LastKeys(Upper),
    /// Cells of all partitions with tokens in a range.
    Tokens(Versions),
    /// Partition keys with tokens in a range.
    Partitions,
}

/// Number of partitions of named cells.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Partitions {
    One,
    Several,
}

/// Returned versions of each cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Versions {
    Newest,
    All,
}

/// Whether a slice of clustering keys has an upper bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Upper {
    Open,
    Before,
}

/// Statements about a commit table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Commits {
    /// The fence, as part of a batch.
    Fence,
    /// A put of an entry that must not exist, as part of a batch.
    Put,
    /// A touch of an entry that must exist, as part of a batch.
    Touch,
    /// An overwrite of an entry, as part of a batch.
    Overwrite,
    Confirm,
    /// Timestamps of the values of entries.
    WriteTimes,
    Delete,
    /// Entries with the given columns.
    Named,
    /// Entries from a column on.
    From,
    MoveEpoch,
    Epoch,
}

/// Statements about the registers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Registers {
    Read,
    CompareAndSet,
}

/// Returns the name of the cluster's table for a table's cells.
pub(crate) fn cells_table(table: TableId) -> String {
    format!("cells_{table}")
}

/// Returns the table whose cells are in the cluster's table of that name, if any.
pub(crate) fn cells_of(name: &str) -> Option<TableId> {
    let number = name.strip_prefix("cells_")?.parse().ok()?;
    Some(TableId(number)).filter(|table| cells_table(*table) == name)
}

/// Returns the name of a commit table.
pub(crate) const fn commits_table(table: CommitTable) -> &'static str {
    match table {
        CommitTable::V2 => "commits2",
        CommitTable::V3 => "commits3",
    }
}

pub(crate) const REGISTERS_TABLE: &str = "registers";

/// Returns the name and the text of each statement that a database on a cluster prepares, with the
/// table 0 for the tables of cells: for audits, and for tests that disturb each request.
#[must_use]
pub fn statements(keyspace: &str) -> Vec<(String, String)> {
    let all = Statement::of_table(TableId(0), CommitTable::V3);
    all.map(|statement| (statement.name(), statement.text(keyspace))).collect()
}

impl Statement {
    /// Returns all statements about one table of cells and one commit table, and all others.
    fn of_table(table: TableId, commits: CommitTable) -> impl Iterator<Item = Self> {
        let cells = Cells::ALL.into_iter().map(move |of| Self::Cells(table, of));
        let commits = Commits::ALL.into_iter().map(move |of| Self::Commits(commits, of));
        let registers = Registers::ALL.into_iter().map(Self::Registers);
        let others = [Self::KeyspaceName, Self::TableNames, Self::Setting];
        cells.chain(commits).chain(registers).chain(others)
    }

    /// Returns a name that leaves out the tables.
    fn name(self) -> String {
        match self {
            Self::Cells(_, of) => format!("cells {of:?}"),
            Self::Commits(_, of) => format!("commits {of:?}"),
            Self::Registers(of) => format!("register {of:?}"),
            Self::KeyspaceName | Self::TableNames | Self::Setting => format!("schema {self:?}"),
        }
    }

    /// Returns the statements that the next leader needs before its first commit.
    pub(crate) fn of_a_leader() -> impl Iterator<Item = Self> {
        use Commits::{Confirm, Epoch, Fence, From, MoveEpoch, Named, Overwrite, Put, Touch};
        let tables = [CommitTable::V2, CommitTable::V3].into_iter();
        let commits = tables.flat_map(|table| {
            [Fence, Put, Touch, Overwrite, Confirm, Named, From, MoveEpoch, Epoch]
                .map(|of| Self::Commits(table, of))
        });
        [Registers::Read, Registers::CompareAndSet].map(Self::Registers).into_iter().chain(commits)
    }

    /// Returns the statement's text.
    pub(crate) fn text(self, keyspace: &str) -> String {
        match self {
            Self::Cells(table, of) => of.text(&format!("{keyspace}.{}", cells_table(table))),
            Self::Commits(table, of) => of.text(&format!("{keyspace}.{}", commits_table(table))),
            Self::Registers(of) => of.text(&format!("{keyspace}.{REGISTERS_TABLE}")),
            Self::KeyspaceName => {
                "SELECT keyspace_name FROM system_schema.keyspaces WHERE keyspace_name = ?".into()
            }
            Self::Setting => "SELECT value FROM system_views.settings WHERE name = ?".into(),
            Self::TableNames => {
                "SELECT table_name FROM system_schema.tables WHERE keyspace_name = ?".into()
            }
        }
    }
}

impl Cells {
    const ALL: [Self; 17] = [
        Self::Write,
        Self::Stamp,
        Self::Delete,
        Self::DeleteOlder,
        Self::Newest,
        Self::Chain,
        Self::Named(Partitions::One),
        Self::Named(Partitions::Several),
        Self::Slice(Versions::Newest, Upper::Open),
        Self::Slice(Versions::Newest, Upper::Before),
        Self::Slice(Versions::All, Upper::Open),
        Self::Slice(Versions::All, Upper::Before),
        Self::LastKeys(Upper::Open),
        Self::LastKeys(Upper::Before),
        Self::Tokens(Versions::Newest),
        Self::Tokens(Versions::All),
        Self::Partitions,
    ];
}

impl Commits {
    const ALL: [Self; 11] = [
        Self::Fence,
        Self::Put,
        Self::Touch,
        Self::Overwrite,
        Self::Confirm,
        Self::WriteTimes,
        Self::Delete,
        Self::Named,
        Self::From,
        Self::MoveEpoch,
        Self::Epoch,
    ];
}

impl Registers {
    const ALL: [Self; 2] = [Self::Read, Self::CompareAndSet];
}

impl Versions {
    const fn filter(self) -> &'static str {
        match self {
            Self::Newest => " AND ver <= ?",
            Self::All => "",
        }
    }

    const fn group(self) -> &'static str {
        match self {
            // A cell's versions are sorted newest first, and GROUP BY keeps the first row of a
            // group.
            Self::Newest => " GROUP BY pk, ck",
            Self::All => "",
        }
    }
}

impl Partitions {
    const fn filter(self) -> &'static str {
        match self {
            Self::One => "pk = ?",
            Self::Several => "pk IN ?",
        }
    }
}

impl Upper {
    const fn filter(self) -> &'static str {
        match self {
            Self::Open => "",
            Self::Before => " AND ck < ?",
        }
    }
}

impl Cells {
    fn text(self, table: &str) -> String {
        const VERSION: &str = "pk, ck, ver, tombstone, payload, stamp";
        match self {
            Self::Write => format!(
                "INSERT INTO {table} (pk, ck, ver, tombstone, payload) VALUES (?, ?, ?, ?, ?) \
                 USING TIMESTAMP ?"
            ),
            Self::Stamp => format!(
                "UPDATE {table} USING TIMESTAMP ? SET stamp = ? WHERE pk = ? AND ck = ? AND ver = ?"
            ),
            Self::Delete => {
                format!("DELETE FROM {table} USING TIMESTAMP ? WHERE pk = ? AND ck = ? AND ver = ?")
            }
            Self::DeleteOlder => {
                format!("DELETE FROM {table} USING TIMESTAMP ? WHERE pk = ? AND ck = ? AND ver < ?")
            }
            Self::Newest => format!(
                "SELECT {VERSION} FROM {table} WHERE pk = ? AND ck = ? AND ver <= ? LIMIT 1"
            ),
            Self::Chain => format!(
                "SELECT {VERSION} FROM {table} WHERE pk = ? AND ck = ? AND ver <= ? LIMIT ?"
            ),
            Self::Named(partitions) => format!(
                "SELECT {VERSION} FROM {table} WHERE {} AND ck IN ?{}{}",
                partitions.filter(),
                Versions::Newest.filter(),
                Versions::Newest.group(),
            ),
            Self::Slice(versions, upper) => format!(
                "SELECT {VERSION} FROM {table} WHERE pk = ? AND ck >= ?{}{}{} LIMIT ? \
                 ALLOW FILTERING",
                upper.filter(),
                versions.filter(),
                versions.group(),
            ),
            Self::LastKeys(upper) => format!(
                "SELECT ck FROM {table} WHERE pk = ? AND ck >= ?{} AND ver <= ? GROUP BY pk, ck \
                 ORDER BY ck DESC LIMIT ? ALLOW FILTERING",
                upper.filter(),
            ),
            Self::Tokens(versions) => format!(
                "SELECT {VERSION} FROM {table} WHERE token(pk) >= ? AND token(pk) <= ?{}{} LIMIT ? \
                 ALLOW FILTERING",
                versions.filter(),
                versions.group(),
            ),
            Self::Partitions => format!(
                "SELECT DISTINCT pk FROM {table} WHERE token(pk) >= ? AND token(pk) <= ? LIMIT ?"
            ),
        }
    }
}

impl Commits {
    fn text(self, table: &str) -> String {
        match self {
            Self::Fence => format!("UPDATE {table} SET epoch = ? WHERE row = ? IF epoch = ?"),
            Self::Put => {
                format!("INSERT INTO {table} (row, col, s) VALUES (?, ?, ?) IF NOT EXISTS")
            }
            Self::Touch => {
                format!("UPDATE {table} SET s = ? WHERE row = ? AND col = ? IF s = ?")
            }
            Self::Overwrite => {
                format!("UPDATE {table} SET s = ?, c = ? WHERE row = ? AND col = ? IF s = ?")
            }
            // Older than all else: a confirmation that arrives after the entry was deleted or
            // overwritten has no effect.
            Self::Confirm => {
                format!("UPDATE {table} USING TIMESTAMP 1 SET c = ? WHERE row = ? AND col = ?")
            }
            Self::WriteTimes => format!(
                "SELECT col, writetime(s), writetime(c) FROM {table} WHERE row = ? AND col IN ?"
            ),
            Self::Delete => {
                format!("DELETE FROM {table} USING TIMESTAMP ? WHERE row = ? AND col = ?")
            }
            Self::Named => format!("SELECT col, s, c FROM {table} WHERE row = ? AND col IN ?"),
            Self::From => {
                format!("SELECT col, s, c FROM {table} WHERE row = ? AND col >= ? LIMIT ?")
            }
            Self::MoveEpoch => format!("UPDATE {table} SET epoch = ? WHERE row = ? IF epoch = ?"),
            Self::Epoch => format!("SELECT DISTINCT row, epoch FROM {table} WHERE row = ?"),
        }
    }
}

impl Registers {
    fn text(self, table: &str) -> String {
        match self {
            Self::Read => format!("SELECT value FROM {table} WHERE name = ?"),
            Self::CompareAndSet => {
                format!("UPDATE {table} SET value = ? WHERE name = ? IF value = ?")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cells(of: Cells) -> String {
        Statement::Cells(TableId(7), of).text("ks")
    }

    fn commits(of: Commits) -> String {
        Statement::Commits(CommitTable::V3, of).text("ks")
    }

    #[test]
    fn cells_are_written_with_explicit_times() {
        assert_eq!(
            cells(Cells::Write),
            "INSERT INTO ks.cells_7 (pk, ck, ver, tombstone, payload) VALUES (?, ?, ?, ?, ?) \
             USING TIMESTAMP ?"
        );
        for of in [Cells::Write, Cells::Stamp, Cells::Delete, Cells::DeleteOlder] {
            assert!(cells(of).contains("USING TIMESTAMP ?"), "{}", cells(of));
        }
        assert!(commits(Commits::Delete).contains("USING TIMESTAMP ?"));
    }

    #[test]
    fn ranges_select_newest_or_all_versions() {
        assert_eq!(
            cells(Cells::Slice(Versions::Newest, Upper::Before)),
            "SELECT pk, ck, ver, tombstone, payload, stamp FROM ks.cells_7 WHERE pk = ? AND \
             ck >= ? AND ck < ? AND ver <= ? GROUP BY pk, ck LIMIT ? ALLOW FILTERING"
        );
        assert_eq!(
            cells(Cells::Tokens(Versions::All)),
            "SELECT pk, ck, ver, tombstone, payload, stamp FROM ks.cells_7 WHERE token(pk) >= ? \
             AND token(pk) <= ? LIMIT ? ALLOW FILTERING"
        );
        assert_eq!(
            cells(Cells::LastKeys(Upper::Open)),
            "SELECT ck FROM ks.cells_7 WHERE pk = ? AND ck >= ? AND ver <= ? GROUP BY pk, ck \
             ORDER BY ck DESC LIMIT ? ALLOW FILTERING"
        );
    }

    #[test]
    fn named_cells_come_from_one_partition_or_from_several() {
        const CELLS: &str = "SELECT pk, ck, ver, tombstone, payload, stamp FROM ks.cells_7 WHERE";
        const NAMED: &str = "AND ck IN ? AND ver <= ? GROUP BY pk, ck";
        assert_eq!(cells(Cells::Named(Partitions::One)), format!("{CELLS} pk = ? {NAMED}"));
        assert_eq!(cells(Cells::Named(Partitions::Several)), format!("{CELLS} pk IN ? {NAMED}"));
    }

    #[test]
    fn conditional_statements_name_no_time() {
        for of in
            [Commits::Fence, Commits::Put, Commits::Touch, Commits::Overwrite, Commits::MoveEpoch]
        {
            let text = commits(of);
            assert!(text.contains(" IF ") && !text.contains("TIMESTAMP"), "{text}");
            assert!(text.contains("ks.commits3"), "{text}");
        }
        let put = Statement::Commits(CommitTable::V2, Commits::Put).text("ks");
        assert_eq!(put, "INSERT INTO ks.commits2 (row, col, s) VALUES (?, ?, ?) IF NOT EXISTS");
    }
}
