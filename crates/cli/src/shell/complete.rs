//! Completion of keywords, and of the names in the schema.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::Result;
use carnet_cql::result::Rows;

use crate::copy::spelled;
use crate::database::Database;

/// Maximum number of columns that are read for completion.
const COLUMNS_MAX: usize = 20_000;

const WORDS: [&str; 94] = [
    "ALL",
    "ALTER",
    "AND",
    "APPLY",
    "ASC",
    "ATTACH",
    "ATTACHED",
    "BATCH",
    "BEGIN",
    "BOTTLENECK",
    "BY",
    "CLUSTERING",
    "COMMIT",
    "CONFLICTS",
    "COPY",
    "CREATE",
    "DELETE",
    "DELIMITER",
    "DESC",
    "DESCRIBE",
    "DETACH",
    "DETACHED",
    "DISTINCT",
    "DROP",
    "EFFECTIVE",
    "ELSE",
    "END",
    "EXISTS",
    "EXIT",
    "EXPLAIN",
    "FROM",
    "HEADER",
    "HELP",
    "IF",
    "IN",
    "INSERT",
    "INTO",
    "IS",
    "ISOLATION",
    "KEY",
    "KEYSPACE",
    "KEYSPACES",
    "KILL",
    "LET",
    "LEVEL",
    "LEVELS",
    "LIMIT",
    "LIST",
    "NOT",
    "NULL",
    "ORDER",
    "PARTITION",
    "PER",
    "PRIMARY",
    "RAISE",
    "REPLICATION",
    "ROLLBACK",
    "SCHEMA",
    "SELECT",
    "SERVICE",
    "SET",
    "SHOW",
    "SOURCE",
    "START",
    "STATEMENT",
    "STATEMENTS",
    "STATIC",
    "STATISTICS",
    "STDIN",
    "STDOUT",
    "TABLE",
    "TABLES",
    "THEN",
    "TIMEOUT",
    "TOKEN",
    "TRANSACTION",
    "TRANSACTIONS",
    "UPDATE",
    "USE",
    "USING",
    "VALUES",
    "WHERE",
    "WITH",
    "bigint",
    "blob",
    "boolean",
    "decimal",
    "double",
    "float",
    "int",
    "text",
    "timestamp",
    "timeuuid",
    "uuid",
];

/// Names of keyspaces, tables and columns, as CQL spells them.
#[derive(Debug, Default)]
pub(super) struct Names {
    /// Columns of each table of each keyspace.
    keyspaces: BTreeMap<String, BTreeMap<String, BTreeSet<String>>>,
}

impl Names {
    /// Reads the schema.
    pub(super) fn read(database: &Database) -> Result<Self> {
        let mut names = Self::default();
        for [keyspace] in
            texts(&database.rows("SELECT keyspace_name FROM system_schema.keyspaces")?)
        {
            names.keyspaces.entry(spelled(&keyspace)).or_default();
        }
        let columns = format!(
            "SELECT keyspace_name, table_name, column_name FROM system_schema.columns LIMIT {COLUMNS_MAX}"
        );
        for [keyspace, table, column] in texts(&database.rows(&columns)?) {
            let tables = names.keyspaces.entry(spelled(&keyspace)).or_default();
            tables.entry(spelled(&table)).or_default().insert(spelled(&column));
        }
        Ok(names)
    }

    /// Returns the names that may follow here: behind `keyspace.` its tables, and otherwise
    /// keyspaces, and tables of the current keyspace with the columns of tables that the line names.
    fn matching(&self, before: &str, current: Option<&str>) -> BTreeSet<&str> {
        if let Some(keyspace) = before.strip_suffix('.') {
            let name = keyspace.rsplit(|c| !is_part(c)).next().unwrap_or_default();
            let tables = self.keyspaces.get(name);
            return tables.iter().flat_map(|tables| tables.keys()).map(String::as_str).collect();
        }
        let mut found: BTreeSet<&str> = self.keyspaces.keys().map(String::as_str).collect();
        let words: BTreeSet<&str> = before.split(|c| !is_part(c)).collect();
        for (keyspace, tables) in &self.keyspaces {
            let is_current = current.is_some_and(|current| spelled(current) == *keyspace);
            if is_current {
                found.extend(tables.keys().map(String::as_str));
            }
            for (table, columns) in tables {
                let is_named = words.contains(table.as_str());
                if is_named && (is_current || words.contains(keyspace.as_str())) {
                    found.extend(columns.iter().map(String::as_str));
                }
            }
        }
        found
    }
}

fn texts<const N: usize>(rows: &Rows) -> Vec<[String; N]> {
    let text =
        |bytes: Option<&[u8]>| String::from_utf8_lossy(bytes.unwrap_or_default()).into_owned();
    let row =
        |row: Vec<Option<&[u8]>>| std::array::from_fn(|at| text(row.get(at).copied().flatten()));
    rows.rows.iter().map(row).collect()
}

/// Returns `true` for a character of a name, with or without quotes.
fn is_part(c: char) -> bool {
    c.is_alphanumeric() || c == '_' || c == '"'
}

/// Returns the beginning of the word before a position of the line, and the words that it may
/// become. Names are found in the whole text, of which the line is the last.
pub(super) fn complete(
    names: &Names,
    current: Option<&str>,
    text_before: &str,
    line: &str,
    position: usize,
) -> (usize, Vec<String>) {
    let typed = &line[..position];
    let start = typed
        .rfind(|c| !is_part(c))
        .map_or(0, |at| at + typed[at..].chars().next().map_or(1, char::len_utf8));
    let stem = &typed[start..];
    // Columns are known from the table, which the statement may name behind the cursor.
    let context = format!("{text_before} {} {}", &line[position..], &typed[..start]);
    let is_qualified = typed[..start].ends_with('.');
    let mut found: Vec<String> = names
        .matching(&context, current)
        .into_iter()
        .filter(|name| name.len() > stem.len() && name.starts_with(stem))
        .filter(|_| !stem.is_empty() || is_qualified)
        .map(str::to_owned)
        .collect();
    if !is_qualified && !stem.is_empty() {
        let begins = |word: &&&str| {
            word.get(..stem.len()).is_some_and(|head| head.eq_ignore_ascii_case(stem))
        };
        found.extend(WORDS.iter().filter(begins).map(|word| format!("{word} ")));
    }
    (start, found)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names() -> Names {
        let columns = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        let accounts = [("accounts".to_owned(), columns(&["id", "owner", "\"Odd\""]))].into();
        Names { keyspaces: [("bank".to_owned(), accounts)].into() }
    }

    fn found(line: &str, current: Option<&str>) -> Vec<String> {
        complete(&names(), current, "", line, line.len()).1
    }

    #[test]
    fn keywords_are_completed() {
        let complete = |line: &str| complete(&Names::default(), None, "", line, line.len());
        assert_eq!(complete("sel"), (0, vec!["SELECT ".into()]));
        assert_eq!(complete("é times"), (3, vec!["timestamp ".into()]));
        assert_eq!(complete("eff"), (0, vec!["EFFECTIVE ".into()]));
        assert_eq!(complete("SELECT ").1, Vec::<String>::new());
    }

    #[test]
    fn names_of_the_schema_are_completed() {
        assert_eq!(found("USE ba", None), ["bank", "BATCH "]);
        assert_eq!(found("SELECT * FROM bank.", None), ["accounts"]);
        assert_eq!(found("SELECT * FROM bank.acc", None), ["accounts"]);
        assert_eq!(found("SELECT * FROM acc", Some("bank")), ["accounts"]);
        assert_eq!(found("SELECT * FROM acc", None), Vec::<String>::new());
        assert_eq!(found("UPDATE bank.accounts SET ow", None), ["owner"]);
        assert_eq!(found("UPDATE accounts SET \"O", Some("bank")), ["\"Odd\""]);
        assert_eq!(found("UPDATE accounts SET ow", None), Vec::<String>::new());
    }

    #[test]
    fn columns_are_known_from_the_text_around() {
        let line = "SELECT ow FROM accounts";
        assert_eq!(complete(&names(), Some("bank"), "", line, 9).1, ["owner"]);
        let before = "UPDATE accounts\n";
        assert_eq!(complete(&names(), Some("bank"), before, "SET ow", 6).1, ["owner"]);
    }
}
