//! Hints for typical mistakes: habits of SQL and of other databases' shells.
//!
//! A hint is given for a statement that has failed, never for one that runs, so a pattern may be
//! broad.

use carnet_cql::ast::Statement;
use carnet_cql::{Limits, parse};

use crate::lexer::{TokenKind, tokens};

/// Patterns, the first that matches first, and their hints.
///
/// A pattern is a row of tokens: words without regard to case, symbols, `"` for any name in double
/// quotes. `^` binds it to the beginning of the statement, `:` to the places of types in definitions,
/// and `~` searches a text in the error instead. Elsewhere the first word of a pattern is no name, of a
/// column for instance.
const HINTS: [(&str, &str); 75] = [
    (r"^\ dt", "DESCRIBE TABLES lists the tables"),
    (r"^\ d", "DESCRIBE TABLES lists the tables, and DESCRIBE TABLE name shows one"),
    (r"^\ l", "DESCRIBE KEYSPACES lists the keyspaces"),
    (r"^\ q", "EXIT leaves the shell"),
    (r"^\ c", "USE keyspace selects a keyspace"),
    (r"^\ i", "SOURCE 'file.cql' runs a script"),
    (r"^\ x", "EXPAND ON prints a line for each value"),
    (r"^\ copy", "COPY table FROM 'file.csv' is a command here: omit the backslash"),
    (r"^\ ?", "HELP lists the commands"),
    (r"^\ timing", "the time of each statement is shown on a terminal anyway"),
    ("^. tables", "DESCRIBE TABLES lists the tables"),
    ("^. schema", "DESCRIBE SCHEMA prints the schema"),
    ("^. quit", "EXIT leaves the shell"),
    ("^. exit", "EXIT leaves the shell"),
    ("^SHOW TABLES", "DESCRIBE TABLES lists the tables"),
    ("^SHOW DATABASES", "DESCRIBE KEYSPACES lists the keyspaces; a keyspace is CQL's database"),
    ("^SHOW SCHEMAS", "DESCRIBE KEYSPACES lists the keyspaces"),
    ("^SHOW KEYSPACES", "DESCRIBE KEYSPACES lists the keyspaces"),
    ("^SHOW COLUMNS", "DESCRIBE TABLE name shows the columns"),
    ("^SHOW CREATE", "DESCRIBE TABLE name shows the statement that creates the table"),
    ("^SHOW INDEX", "DESCRIBE TABLE name shows the table's indexes"),
    ("^SHOW INDEXES", "DESCRIBE TABLE name shows the table's indexes"),
    (
        "^SHOW PROCESSLIST",
        "SHOW STATEMENTS lists the statements that a server runs; KILL STATEMENT id ends one",
    ),
    (
        "^CREATE DATABASE",
        "CQL's database is a keyspace: CREATE KEYSPACE name WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
    ),
    (
        "^CREATE SCHEMA",
        "write CREATE KEYSPACE name WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
    ),
    ("^DROP DATABASE", "CQL's database is a keyspace: DROP KEYSPACE name"),
    ("^CREATE SEQUENCE", "there are no sequences: use uuid() for keys, or a counter table"),
    ("^CREATE VIEW", "only materialized views exist: CREATE MATERIALIZED VIEW name AS SELECT …"),
    (
        "^CREATE PROCEDURE",
        "there are no procedures: BEGIN TRANSACTION … COMMIT TRANSACTION groups statements, with LET and IF",
    ),
    ("^SAVEPOINT", "there are no savepoints: ROLLBACK ends the whole transaction"),
    ("^REPLACE INTO", "INSERT overwrites the row of the same key: write INSERT INTO"),
    ("^INSERT IGNORE", "write INSERT INTO … IF NOT EXISTS"),
    ("^MERGE", "INSERT overwrites the row of the same key; UPDATE … IF makes it conditional"),
    ("~BEGIN block has no end", BLOCK),
    ("ON DUPLICATE", "INSERT overwrites the row of the same key: omit ON DUPLICATE KEY"),
    (
        "ON CONFLICT",
        "INSERT overwrites the row of the same key; IF NOT EXISTS keeps an existing row",
    ),
    ("RETURNING", "writes return no rows: SELECT the row, in the same transaction if it matters"),
    (
        "JOIN",
        "CQL has no joins: read the tables one by one, or keep the columns together in one table",
    ),
    ("UNION", "CQL has no UNION: send the queries one by one"),
    ("EXCEPT", "CQL has no EXCEPT: compare the results of two queries"),
    ("INTERSECT", "CQL has no INTERSECT: compare the results of two queries"),
    ("HAVING", "CQL has no HAVING: filter the groups that the query returns"),
    ("OFFSET", "CQL has no OFFSET: continue behind the last row, as by WHERE key = … AND time > …"),
    (
        "FOREIGN KEY",
        "CQL has no foreign keys: BEGIN TRANSACTION with IF … IS NOT NULL checks another row",
    ),
    (
        "REFERENCES",
        "CQL has no foreign keys: BEGIN TRANSACTION with IF … IS NOT NULL checks another row",
    ),
    (
        "UNIQUE",
        "only the primary key is unique: keep a table with the unique column as its key, and write both in one transaction",
    ),
    ("AUTO_INCREMENT", "keys are not counted up: use uuid PRIMARY KEY, and uuid() in the INSERT"),
    ("AUTOINCREMENT", "keys are not counted up: use uuid PRIMARY KEY, and uuid() in the INSERT"),
    ("IDENTITY", "keys are not counted up: use uuid PRIMARY KEY, and uuid() in the INSERT"),
    ("SERIAL PRIMARY", "keys are not counted up: use uuid PRIMARY KEY, and uuid() in the INSERT"),
    (":BIGSERIAL", "keys are not counted up: use uuid PRIMARY KEY, and uuid() in the INSERT"),
    ("VARCHAR (", "texts have no maximum length: write text"),
    ("CHAR (", "texts have no maximum length: write text"),
    ("DECIMAL (", "decimals have no precision: write decimal"),
    (":NUMERIC", "the type is decimal, without a precision"),
    (":DATETIME", "the type is timestamp"),
    (":INTEGER", "the type is int, or bigint for 64 bits"),
    (":STRING", "the type is text"),
    (":BOOL", "the type is boolean"),
    (":LONG", "the type is bigint"),
    (":JSONB", "the type is text; SELECT JSON and INSERT … JSON convert rows"),
    ("DEFAULT", "columns have no defaults: give the value in the INSERT"),
    ("NOT NULL", "columns other than the primary key may always be null: omit NOT NULL"),
    ("CHECK (", "columns have no checks here: BEGIN TRANSACTION with IF checks before it writes"),
    ("ADD COLUMN", "omit COLUMN: ALTER TABLE name ADD column type"),
    ("ALTER COLUMN", "a column's type cannot change: ADD another column, and copy the values"),
    ("MODIFY", "a column's type cannot change: ADD another column, and copy the values"),
    ("( SELECT", "CQL has no subqueries: read first, or use LET in BEGIN TRANSACTION"),
    (
        "^DELETE * FROM",
        "omit the *: DELETE FROM table WHERE key = …; TRUNCATE table removes all rows",
    ),
    ("`", "names stand in double quotes, or without quotes"),
    ("= =", "equality is ="),
    ("OR", "CQL has no OR: use IN for several values of a column, or send several queries"),
    (
        "~ALLOW FILTERING",
        "restrict the partition key, create an index on the column, or add ALLOW FILTERING to read the whole table",
    ),
    (
        "~No keyspace",
        "USE keyspace selects one, or write keyspace.table; DESCRIBE KEYSPACES lists them",
    ),
    (
        "~no keyspace",
        "USE keyspace selects one, or write keyspace.table; DESCRIBE KEYSPACES lists them",
    ),
];

const BLOCK: &str = "START TRANSACTION begins a transaction that stays open until COMMIT or ROLLBACK; \
                     BEGIN TRANSACTION … COMMIT TRANSACTION is one statement; no transaction has begun, and each \
                     statement that follows takes effect at once";
const QUOTES: &str = "texts stand in single quotes; double quotes are for names";
const ROWS: &str = "an INSERT has one row: send one for each, in BEGIN BATCH … APPLY BATCH if they belong together";
const COLUMNS: &str = "an INSERT names its columns: INSERT INTO table (column, …) VALUES (…)";
const WHOLE_TABLE: &str =
    "name the row: WHERE and its whole primary key; TRUNCATE table removes all rows";
const NOT_EQUAL: &str = "WHERE has no <> or !=: read the rows, and leave out the others";

/// Returns a hint for a statement that failed with a message.
pub(crate) fn hint(text: &str, message: &str) -> Option<&'static str> {
    let words = words(text);
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let defines = DEFINITIONS.iter().any(|begin| begins(&words, begin));
    let is_found = |pattern: &str, at: usize| begins(&words[at..], pattern);
    let matches = |pattern: &str| match pattern.split_at(1) {
        ("~", part) => message.contains(part),
        ("^", begin) => begins(&words, begin),
        (":", name) => {
            defines && (0..words.len()).any(|at| is_found(name, at) && is_type(&words, at))
        }
        _ => (0..words.len()).any(|at| is_found(pattern, at) && !is_name(&words, at)),
    };
    // A statement that can be parsed has none of these mistakes, but names of other databases' types.
    let is_wrong = match parse(text, &Limits::default()) {
        Ok(parsed) => matches!(parsed.statement, Statement::Unsupported(_)),
        Err(_) => true,
    };
    let has_words = is_wrong || defines;
    let applies = |pattern: &str| has_words || pattern.starts_with('~');
    let mut known = HINTS.iter().filter(|(pattern, _)| applies(pattern) && matches(pattern));
    let known = known.next().map(|(_, hint)| *hint);
    known.or_else(|| of_form(&words))
}

/// Beginnings of statements that have types.
const DEFINITIONS: [&str; 4] = ["CREATE TABLE", "ALTER TABLE", "CREATE TYPE", "ALTER TYPE"];

/// Words that a name follows.
const BEFORE_NAMES: [&str; 22] = [
    "ADD", "ALTER", "AND", "AS", "BY", "COLUMN", "DELETE", "DISTINCT", "DROP", "EXISTS", "FROM",
    "INTO", "LET", "ON", "RENAME", "SELECT", "SET", "TABLE", "TO", "TYPE", "UPDATE", "WHERE",
];

/// Returns `true` if a word is where a statement has a name of a column, table or keyspace.
fn is_name(words: &[&str], at: usize) -> bool {
    let Some(before) = at.checked_sub(1).map(|before| words[before]) else { return false };
    if !is_word(words[at]) {
        return false;
    }
    let is_called = words.get(at + 1) == Some(&"(") && before != ".";
    let is_listed = ["(", ","].contains(&before) && !words[..at].contains(&"VALUES");
    !is_called && (before == "." || is_listed || BEFORE_NAMES.contains(&before))
}

/// Returns `true` if a word of a definition is where it has a type: behind a name, or in `<…>`.
fn is_type(words: &[&str], at: usize) -> bool {
    let count = |symbol| words[..at].iter().filter(|word| **word == symbol).count();
    let before = at.checked_sub(1).map_or("", |before| words[before]);
    let is_named = before == "\"" || is_word(before);
    // ALTER column TYPE type.
    let follows_name = before == "TYPE" && at > 2 || is_named && !BEFORE_NAMES.contains(&before);
    follows_name || count("<") > count(">")
}

fn is_word(token: &str) -> bool {
    token.starts_with(|c: char| c.is_alphanumeric() || c == '_')
}

/// Returns a hint for a mistake that is no row of tokens.
fn of_form(words: &[&str]) -> Option<&'static str> {
    let has = |pattern: &str| (0..words.len()).any(|at| begins(&words[at..], pattern));
    let is_write = |verb| words.first() == Some(&verb);
    if is_foreign_block(words) {
        return Some(BLOCK);
    }
    if (0..words.len()).any(|at| is_quoted_text(words, at)) {
        return Some(QUOTES);
    }
    if is_write("INSERT") && has(") , (") {
        return Some(ROWS);
    }
    if is_write("INSERT")
        && words.iter().find(|word| ["(", "VALUES"].contains(word)) == Some(&"VALUES")
    {
        return Some(COLUMNS);
    }
    if (is_write("DELETE") || is_write("UPDATE")) && !words.contains(&"WHERE") {
        return Some(WHOLE_TABLE);
    }
    if words.contains(&"WHERE") && (has("< >") || has("! =")) {
        return Some(NOT_EQUAL);
    }
    None
}

/// Returns `true` for blocks of other databases: `BEGIN;`, `BEGIN UPDATE …`, `BEGIN TRANSACTION;` and `…; COMMIT;`.
fn is_foreign_block(words: &[&str]) -> bool {
    match words {
        ["BEGIN"] | ["BEGIN", "TRANSACTION"] => true,
        ["BEGIN", "TRANSACTION", .., ";", "COMMIT"] => true,
        ["BEGIN", kind, ..] => {
            !["BATCH", "COUNTER", "LOGGED", "TRANSACTION", "UNLOGGED"].contains(kind)
        }
        _ => false,
    }
}

/// Returns `true` if a name in double quotes stands where a statement has a value.
fn is_quoted_text(words: &[&str], at: usize) -> bool {
    let next = words.get(at + 1).copied().unwrap_or_default();
    // A column or field of what precedes the point, a function, a field of a type, or a counter.
    let is_name = [".", "(", ":", "+", "-"].contains(&next);
    if words[at] != "\"" || is_name || at == 0 {
        return false;
    }
    let is_in_values = words[..at].windows(2).any(|pair| pair == ["VALUES", "("]);
    let is_listed = ["(", ",", "[", "{", ":"].contains(&words[at - 1]);
    words[at - 1] == "=" || is_in_values && is_listed
}

fn begins(words: &[&str], pattern: &str) -> bool {
    let mut rest = words.iter();
    pattern
        .split(' ')
        .filter(|part| !part.is_empty())
        .all(|part| rest.next().is_some_and(|word| part.eq_ignore_ascii_case(word)))
}

/// Returns the tokens of a statement: words in upper case, names in double quotes as `"`, texts as
/// `'`.
fn words(text: &str) -> Vec<String> {
    let token = |kind: TokenKind| match kind {
        TokenKind::Word(word) => word.to_ascii_uppercase(),
        TokenKind::Quoted(_) => "\"".to_owned(),
        TokenKind::Text(_) => "'".to_owned(),
        TokenKind::Symbol(symbol) => symbol.to_string(),
    };
    // Text with an open quote has no tokens.
    let tokens = tokens(text).unwrap_or_default();
    tokens.into_iter().map(|found| token(found.kind)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_in_texts_are_no_mistakes() {
        assert!(hint("SELECT a FROM t WHERE b = 'left JOIN right'", "").is_none());
        assert!(hint("SELECT a FROM t JOIN u", "").unwrap().contains("no joins"));
        assert!(hint("select a from t join u", "").unwrap().contains("no joins"));
    }

    #[test]
    fn statements_that_can_be_parsed_get_no_hints_about_their_words() {
        for text in [
            "GRANT MODIFY ON ks.t TO ann",
            "ADD IDENTITY 'a' TO ROLE 'ann'",
            "ALTER SERVICE LEVEL default WITH shares = 7",
            "CREATE MATERIALIZED VIEW v AS SELECT a FROM t WHERE a IS NOT NULL PRIMARY KEY (a)",
            "BEGIN TRANSACTION LET a = (SELECT v FROM t WHERE k = 1); SELECT a.v; COMMIT TRANSACTION",
        ] {
            assert_eq!(hint(text, "refused"), None, "{text}");
        }
        assert!(hint("CREATE TABLE t (a integer PRIMARY KEY)", "").unwrap().contains("int"));
    }

    #[test]
    fn forms_are_recognized() {
        assert_eq!(hint("SELECT a FROM t WHERE b = \"x\"", ""), Some(QUOTES));
        assert_eq!(hint("INSERT INTO t (a) VALUES (\"x\")", ""), Some(QUOTES));
        assert_eq!(hint("INSERT INTO t (a) VALUES (1), (2)", ""), Some(ROWS));
        assert_eq!(hint("INSERT INTO k.t VALUES (1)", ""), Some(COLUMNS));
        assert_eq!(hint("DELETE FROM t", ""), Some(WHOLE_TABLE));
        assert_eq!(hint("SELECT a FROM t WHERE b <> 1", ""), Some(NOT_EQUAL));
        assert_eq!(hint("SELECT a FROM t", "unknown column"), None);
    }

    #[test]
    fn blocks_of_other_databases_have_a_hint() {
        for text in [
            "BEGIN",
            "begin work",
            "BEGIN UPDATE t SET a = 1 WHERE k = 1",
            "BEGIN TRANSACTION",
            "BEGIN TRANSACTION UPDATE t SET a = 1 WHERE k = 1; COMMIT",
        ] {
            assert_eq!(hint(text, "refused"), Some(BLOCK), "{text}");
        }
        let block = "BEGIN TRANSACTION UPDATE t SET a = 1 WHERE k = 1; COMMIT TRANSACTION";
        for text in [block, "BEGIN BATCH UPDATE t SET a = 1 WHERE k = 1; APPLY BATCH"] {
            assert_eq!(hint(text, "refused"), None, "{text}");
        }
    }

    #[test]
    fn quoted_names_are_no_texts() {
        for text in [
            r#"INSERT INTO t ("Key", "Value") VALUES (1, 'x')"#,
            r#"INSERT INTO t (a) VALUES ({"Street": 'x'})"#,
            r#"UPDATE t SET "Count" = "Count" + 1 WHERE a = 1"#,
        ] {
            assert_eq!(hint(text, "refused"), None, "{text}");
        }
        for text in [
            r#"INSERT INTO t ("Key", b) VALUES (1, "x")"#,
            r#"INSERT INTO t (a) VALUES ({'k': "x"})"#,
            r#"UPDATE t SET "a" = "x" WHERE k = 1"#,
        ] {
            assert_eq!(hint(text, "refused"), Some(QUOTES), "{text}");
        }
    }

    #[test]
    fn names_of_columns_are_no_mistakes() {
        for text in [
            "CREATE TABLE t (string text PRIMARY KEY, long int, identity int, bool int) WITH x = 1",
            "CREATE TABLE string (a int, long int, PRIMARY KEY (a, long)) WITH CLUSTERING ORDER BY (b ASC)",
            "ALTER TABLE k.string ADD long bigint",
            "ALTER TABLE t DROP identity",
            "SELECT offset, union FROM t WHERE default = 1 AND",
        ] {
            assert_eq!(hint(text, "refused"), None, "{text}");
        }
        for (text, part) in [
            ("CREATE TABLE t (identity int PRIMARY KEY, a string)", "text"),
            ("CREATE TABLE t (\"A\" string PRIMARY KEY)", "text"),
            ("CREATE TABLE t (a map<text, long>, long text)", "bigint"),
            ("CREATE TABLE t (a int IDENTITY(1, 1) PRIMARY KEY)", "uuid"),
            ("ALTER TABLE t ALTER a TYPE string", "text"),
            ("CREATE TABLE t (a int, UNIQUE (a))", "unique"),
            ("INSERT INTO t (a) VALUES (DEFAULT)", "defaults"),
        ] {
            let found = hint(text, "refused").unwrap_or_default();
            assert!(found.contains(part), "{text}: {found}");
        }
    }

    #[test]
    fn patterns_are_found_at_their_place() {
        assert!(hint(r"\dt", "").unwrap().contains("DESCRIBE TABLES"));
        assert!(hint("CREATE TABLE show (tables int)", "").is_none());
        let filtering = "use ALLOW FILTERING";
        assert!(hint("SELECT a FROM t WHERE b = 1", filtering).unwrap().contains("index"));
    }
}
