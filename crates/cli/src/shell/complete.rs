//! Completion of keywords, and of the names in the schema.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::Result;
use carnet_cql::result::Rows;

use crate::copy::spelled;
use crate::database::Database;

/// Maximum number of columns that are read for completion.
const COLUMNS_MAX: usize = 20_000;

/// Keywords of CQL and of the shell's own commands.
const WORDS: [&str; 149] = [
    "ADD",
    "ALL",
    "ALLOW",
    "ALTER",
    "AND",
    "ANN",
    "APPLY",
    "AS",
    "ASC",
    "ATTACH",
    "ATTACHED",
    "AUTHORIZE",
    "BATCH",
    "BEGIN",
    "BOTTLENECK",
    "BY",
    "CAPTURE",
    "CLEAR",
    "CLUSTERING",
    "COLUMN",
    "COMMIT",
    "COMPACT",
    "CONFLICTS",
    "CONSISTENCY",
    "CONTAINS",
    "COPY",
    "COUNTER",
    "CREATE",
    "CUSTOM",
    "DEFAULT",
    "DELETE",
    "DELIMITER",
    "DESC",
    "DESCRIBE",
    "DETACH",
    "DETACHED",
    "DISTINCT",
    "DROP",
    "DURABLE_WRITES",
    "EFFECTIVE",
    "ELSE",
    "END",
    "ENTRIES",
    "EXISTS",
    "EXIT",
    "EXPAND",
    "EXPLAIN",
    "FILTERING",
    "FROM",
    "FROZEN",
    "FULL",
    "FUNCTION",
    "GRANT",
    "GROUP",
    "HASHED",
    "HEADER",
    "HELP",
    "HOST",
    "IDENTITY",
    "IF",
    "IN",
    "INDEX",
    "INSERT",
    "INTO",
    "IS",
    "ISOLATION",
    "JSON",
    "KEY",
    "KEYS",
    "KEYSPACE",
    "KEYSPACES",
    "KILL",
    "LET",
    "LEVEL",
    "LEVELS",
    "LIKE",
    "LIMIT",
    "LIST",
    "LOGGED",
    "LOGIN",
    "MASKED",
    "MATERIALIZED",
    "MODIFY",
    "NOSUPERUSER",
    "NOT",
    "NULL",
    "OFF",
    "ON",
    "OPTIONS",
    "ORDER",
    "OUTCOME",
    "PAGING",
    "PARTITION",
    "PASSWORD",
    "PER",
    "PERMISSIONS",
    "PRIMARY",
    "QUIT",
    "RAISE",
    "RENAME",
    "REPLICATION",
    "REVOKE",
    "ROLE",
    "ROLES",
    "ROLLBACK",
    "SCHEMA",
    "SELECT",
    "SERIAL",
    "SERVICE",
    "SESSION",
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
    "STORAGE",
    "SUPERUSER",
    "TABLE",
    "TABLES",
    "THEN",
    "TIMEOUT",
    "TIMESTAMP",
    "TO",
    "TOKEN",
    "TRACING",
    "TRANSACTION",
    "TRANSACTIONS",
    "TRUNCATE",
    "TTL",
    "TYPE",
    "TYPES",
    "UNLOGGED",
    "UNSET",
    "UPDATE",
    "USE",
    "USER",
    "USERS",
    "USING",
    "VALUES",
    "VERSION",
    "VIEW",
    "WAITS",
    "WHERE",
    "WITH",
];

const TYPES: [&str; 27] = [
    "ascii",
    "bigint",
    "blob",
    "boolean",
    "counter",
    "date",
    "decimal",
    "double",
    "duration",
    "float",
    "frozen",
    "inet",
    "int",
    "list",
    "map",
    "set",
    "smallint",
    "text",
    "time",
    "timestamp",
    "timeuuid",
    "tinyint",
    "tuple",
    "uuid",
    "varchar",
    "varint",
    "vector",
];

const FUNCTIONS: [&str; 44] = [
    "abs",
    "avg",
    "blob_as_int",
    "cast",
    "collection_avg",
    "collection_count",
    "collection_max",
    "collection_min",
    "collection_sum",
    "count",
    "current_date",
    "current_time",
    "current_timestamp",
    "current_timeuuid",
    "exp",
    "log",
    "log10",
    "map_keys",
    "map_values",
    "mask_default",
    "mask_hash",
    "mask_inner",
    "mask_null",
    "mask_outer",
    "mask_replace",
    "max",
    "max_timeuuid",
    "min",
    "min_timeuuid",
    "now",
    "outcome",
    "round",
    "similarity_cosine",
    "similarity_dot_product",
    "similarity_euclidean",
    "sum",
    "to_date",
    "to_json",
    "to_timestamp",
    "to_unix_timestamp",
    "token",
    "ttl",
    "uuid",
    "writetime",
];

/// Names of the schema, as CQL spells them.
#[derive(Debug, Default)]
pub(super) struct Names {
    /// Columns of each table of each keyspace.
    keyspaces: BTreeMap<String, BTreeMap<String, BTreeSet<String>>>,
    /// Names of other kinds, with their keyspaces if they have one.
    others: Vec<(Kind, Option<String>, String)>,
}

/// Kind of a name that is neither of a keyspace, table nor column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Type,
    Index,
    Role,
    Level,
}

impl Kind {
    const ALL: [Self; 4] = [Self::Type, Self::Index, Self::Role, Self::Level];

    /// Query of the names; the keyspaces are first, if they have any.
    const fn query(self) -> &'static str {
        match self {
            Self::Type => "SELECT keyspace_name, type_name FROM system_schema.types",
            Self::Index => "SELECT keyspace_name, index_name FROM system_schema.indexes",
            Self::Role => "SELECT role FROM system_auth.roles",
            Self::Level => "LIST ALL SERVICE LEVELS",
        }
    }

    /// Words of which a statement that has such names has one.
    const fn words(self) -> &'static [&'static str] {
        match self {
            Self::Type => &["TABLE", "TYPE", "CAST"],
            Self::Index => &["INDEX"],
            Self::Role => &["ATTACH", "DETACH", "GRANT", "LIST", "LOGIN", "REVOKE", "ROLE", "USER"],
            Self::Level => &["LEVEL"],
        }
    }

    const fn has_keyspace(self) -> bool {
        matches!(self, Self::Type | Self::Index)
    }
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
        for kind in Kind::ALL {
            // A user may not read roles, and other servers have no service levels.
            let rows = database.rows(kind.query()).unwrap_or_default();
            names.add(kind, &rows);
        }
        Ok(names)
    }

    fn add(&mut self, kind: Kind, rows: &Rows) {
        for [first, second] in texts(rows) {
            let (keyspace, name) =
                if kind.has_keyspace() { (Some(spelled(&first)), second) } else { (None, first) };
            self.others.push((kind, keyspace, spelled(&name)));
        }
    }

    /// Returns the names of other kinds that the statement around may have here.
    fn others(&self, before: &str, current: Option<&str>) -> impl Iterator<Item = &str> {
        let qualifier = before.strip_suffix('.').map(last_part);
        let words = before.to_ascii_uppercase();
        let words: BTreeSet<String> = words.split(|c| !is_part(c)).map(str::to_owned).collect();
        let current = current.map(spelled);
        let is_here = move |(kind, keyspace, _): &&(Kind, Option<String>, String)| {
            let is_of_statement = kind.words().iter().any(|word| words.contains(*word));
            let is_reached = match (qualifier, keyspace) {
                (Some(qualifier), keyspace) => keyspace.as_deref() == Some(qualifier),
                (None, Some(keyspace)) => current.as_ref() == Some(keyspace),
                (None, None) => true,
            };
            is_of_statement && is_reached
        };
        self.others.iter().filter(is_here).map(|(_, _, name)| name.as_str())
    }

    /// Returns the names that may follow here: behind `keyspace.` its tables, and otherwise
    /// keyspaces, and tables of the current keyspace with the columns of tables that the line names.
    fn matching(&self, before: &str, current: Option<&str>) -> BTreeSet<&str> {
        if let Some(keyspace) = before.strip_suffix('.') {
            let tables = self.keyspaces.get(last_part(keyspace));
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

/// Returns the name that a text ends with.
fn last_part(text: &str) -> &str {
    text.rsplit(|c| !is_part(c)).next().unwrap_or_default()
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
        .chain(names.others(&context, current))
        .filter(|name| name.len() > stem.len() && name.starts_with(stem))
        .filter(|_| !stem.is_empty() || is_qualified)
        .map(str::to_owned)
        .collect();
    if !is_qualified && !stem.is_empty() {
        let begins = |word: &&&str| {
            word.get(..stem.len()).is_some_and(|head| head.eq_ignore_ascii_case(stem))
        };
        found.extend(WORDS.iter().filter(begins).map(|word| format!("{word} ")));
        found.extend(TYPES.iter().filter(begins).map(|word| format!("{word} ")));
        found.extend(FUNCTIONS.iter().filter(begins).map(|word| format!("{word}(")));
    }
    (start, found)
}

#[cfg(test)]
mod tests {
    use carnet_cql::system::NodeInfo;
    use carnet_cql::{Executor, Session};

    use super::*;

    fn names() -> Names {
        let columns = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        let accounts = [("accounts".to_owned(), columns(&["id", "owner", "\"Odd\""]))].into();
        let other = |kind, keyspace: Option<&str>, name: &str| {
            (kind, keyspace.map(str::to_owned), name.to_owned())
        };
        let others = vec![
            other(Kind::Type, Some("bank"), "address"),
            other(Kind::Index, Some("bank"), "owners"),
            other(Kind::Role, None, "ann"),
            other(Kind::Level, None, "reports"),
        ];
        Names { keyspaces: [("bank".to_owned(), accounts)].into(), others }
    }

    fn found(line: &str, current: Option<&str>) -> Vec<String> {
        complete(&names(), current, "", line, line.len()).1
    }

    #[test]
    fn keywords_are_completed() {
        let complete = |line: &str| complete(&Names::default(), None, "", line, line.len());
        assert_eq!(complete("sel"), (0, vec!["SELECT ".into()]));
        assert_eq!(complete("é times"), (3, vec!["TIMESTAMP ".into(), "timestamp ".into()]));
        assert_eq!(complete("SELECT similarity_c").1, ["similarity_cosine("]);
        assert_eq!(complete("trac").1, ["TRACING "]);
        assert_eq!(complete("CREATE MAT").1, ["MATERIALIZED "]);
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
    fn names_of_other_kinds_are_completed_in_their_statements() {
        assert_eq!(found("ALTER TYPE bank.addr", None), ["address"]);
        assert_eq!(found("CREATE TABLE t (a addr", Some("bank")), ["address"]);
        assert_eq!(found("CREATE TABLE t (a addr", None), Vec::<String>::new());
        assert_eq!(found("DROP INDEX bank.ow", None), ["owners"]);
        assert_eq!(found("DROP INDEX ow", Some("bank")), ["owners"]);
        assert_eq!(found("GRANT SELECT ON bank.accounts TO ann", None), ["ANN "]);
        assert_eq!(found("GRANT SELECT ON bank.accounts TO an", None), ["ann", "AND ", "ANN "]);
        assert_eq!(found("ALTER SERVICE LEVEL rep", None), ["reports", "REPLICATION "]);
        assert_eq!(found("SELECT addr", Some("bank")), Vec::<String>::new());
    }

    #[test]
    fn functions_are_those_of_cql() {
        let local = NodeInfo::local(carnet::Uuid::nil());
        let executor = Executor::new(carnet::Db::builder().in_memory(), local);
        let session = Session::new();
        let refusal = |name: &str| {
            let text = format!("SELECT {name}(key) FROM system.local");
            let prepared = executor.prepare(&session, &text, None);
            carnet::block_on(prepared)
                .err()
                .map_or(String::new(), |error| error.message().to_owned())
        };
        assert!(refusal("nonsense").contains("not supported"), "{}", refusal("nonsense"));
        for name in FUNCTIONS {
            let refusal = refusal(name);
            assert!(!refusal.contains("not supported"), "{name}: {refusal}");
        }
    }

    #[test]
    fn columns_are_known_from_the_text_around() {
        let line = "SELECT ow FROM accounts";
        assert_eq!(complete(&names(), Some("bank"), "", line, 9).1, ["owner"]);
        let before = "UPDATE accounts\n";
        assert_eq!(complete(&names(), Some("bank"), before, "SET ow", 6).1, ["owner"]);
    }
}
