//! `carnet inspect commits`: the entries of a database's commit table.

use std::collections::BinaryHeap;
use std::io::Write;
use std::path::PathBuf;

use anyhow::{Result, bail};
use carnet::{CommitEntry, CommitListing, Db, Encoding, Timestamp, block_on};
use clap::Args;

use crate::place::Place;

/// The commit table: start and commit of each decided transaction.
///
/// An entry with `aborted` says that the transaction never took effect; a transaction without an
/// entry is running, or was never committed. Embedded databases have no entries of aborted
/// transactions. The lines are followed by the encodings of the table and the range that was swept.
/// A directory must not be in use; it is not changed. Beside the servers of a cluster's database the
/// command is one more process.
#[derive(Args)]
pub(crate) struct Commits {
    /// The database's directory.
    #[arg(value_name = "DIR", required_unless_present = "store")]
    directory: Option<PathBuf>,
    /// A database on a Cassandra or ScyllaDB cluster, as for carnet serve.
    #[arg(long, value_name = "URL", conflicts_with = "directory")]
    store: Option<String>,
    /// First start timestamp.
    #[arg(long, value_name = "START", default_value_t = 0)]
    from: u64,
    /// First start timestamp that is not shown.
    #[arg(long, value_name = "START")]
    to: Option<u64>,
    /// Maximum number of entries to show, those with the smallest starts.
    #[arg(long, value_name = "COUNT", default_value_t = 1000)]
    limit: usize,
}

impl Commits {
    pub(crate) fn print(self, out: &mut impl Write) -> Result<()> {
        let Some(place) = Place::from_options(self.directory, self.store.as_deref())? else {
            bail!("name a directory, or a cluster by --store URL");
        };
        let is_directory = matches!(place, Place::Directory(_));
        let db = place.open(Db::builder().read_only(is_directory))?;
        let to = self.to.and_then(Timestamp::new).unwrap_or(Timestamp::MAX);
        let from = Timestamp::new(self.from).unwrap_or(Timestamp::MAX);
        let mut found = Found { limit: self.limit, ..Found::default() };
        let listed = db.list_commits(from, to, &mut |encoding, start, entry| {
            found.add(encoding, start, entry);
            Ok(())
        });
        block_on(db.leave());
        found.print(out, &listed?)
    }
}

/// Entries with the smallest starts, and the numbers of all.
#[derive(Default)]
struct Found {
    limit: usize,
    shown: BinaryHeap<(Timestamp, u8, Option<Timestamp>)>,
    committed: u64,
    aborted: u64,
}

impl Found {
    fn add(&mut self, encoding: Encoding, start: Timestamp, entry: CommitEntry) {
        let commit = match entry {
            CommitEntry::Committed(commit) => Some(commit),
            CommitEntry::Aborted => None,
        };
        *(if commit.is_some() { &mut self.committed } else { &mut self.aborted }) += 1;
        self.shown.push((start, encoding.version(), commit));
        if self.shown.len() > self.limit {
            self.shown.pop();
        }
    }

    fn print(self, out: &mut impl Write, listing: &CommitListing) -> Result<()> {
        let Self { limit, shown, committed, aborted } = self;
        writeln!(out, "start\tcommit\tencoding")?;
        let all = committed + aborted;
        for (start, version, commit) in shown.into_sorted_vec() {
            let commit = commit.map_or("aborted".to_owned(), |commit| commit.to_string());
            writeln!(out, "{start}\t{commit}\tv{version}")?;
        }
        if all > limit as u64 {
            writeln!(
                out,
                "{} more entries; --from, --to and --limit choose others",
                all - limit as u64
            )?;
        }
        let CommitListing { encodings, valid_through, swept_below } = listing;
        let spans: Vec<String> =
            encodings.iter().map(|(first, of)| format!("{of} from {first}")).collect();
        writeln!(
            out,
            "{committed} committed, {aborted} aborted; encodings: {}, for starts through {valid_through}; entries \
             below {swept_below} may have been swept",
            spans.join(", ")
        )?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn smallest_starts_are_shown() {
        let at = |number| Timestamp::new(number).unwrap();
        let mut found = Found { limit: 2, ..Found::default() };
        for start in [9, 5, 7] {
            found.add(Encoding::V2, at(start), CommitEntry::Committed(at(start + 1)));
        }
        found.add(Encoding::V3, at(3), CommitEntry::Aborted);
        let mut out = Vec::new();
        let encodings = vec![(at(0), Encoding::V2), (at(4), Encoding::V3)];
        let listing = CommitListing { encodings, valid_through: at(99), swept_below: at(2) };
        found.print(&mut out, &listing).unwrap();
        let text = String::from_utf8(out).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[..3], ["start\tcommit\tencoding", "3\taborted\tv3", "5\t6\tv2"]);
        assert_eq!(lines[3], "2 more entries; --from, --to and --limit choose others");
        assert!(lines[4].starts_with("3 committed, 1 aborted; encodings: v2 from 0, v3 from 4, "));
        assert!(lines[4].ends_with("through 99; entries below 2 may have been swept"), "{text}");
    }
}
