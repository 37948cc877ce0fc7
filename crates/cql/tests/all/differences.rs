//! The list of differences from Cassandra in `docs/cql.md`: each has an example, which is run.
//!
//! `UPDATE_GOLDENFILES=1 cargo test -p carnet-cql --test all differences::` writes the list anew.

use std::path::Path;
use std::{env, fs};

use carnet::{Db, Uuid, block_on};
use carnet_cql::result::Response;
use carnet_cql::system::NodeInfo;
use carnet_cql::{Executor, Parameters, Session};

use crate::support::table;

const PAGE: &str = "../../docs/cql.md";
const BEGIN: &str = "<!-- differences: made of crates/cql/tests/all/differences.rs -->\n";
const END: &str = "<!-- end of differences -->\n";

/// Statements before each example.
const SCHEMA: [&str; 10] = [
    "CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
    "USE ks",
    "CREATE TABLE t (k int PRIMARY KEY, a int, b int, n int, l list<int>, w text, v vector<float, 2>, i inet)",
    "CREATE TABLE r (k int, c int, v int, PRIMARY KEY (k, c))",
    "CREATE TABLE e (k int, at timestamp, v int, PRIMARY KEY (k, at))",
    "CREATE TABLE dense (k int, c int, d int, v int, PRIMARY KEY (k, c, d)) WITH COMPACT STORAGE",
    "CREATE TABLE had (k int, c int, d int, v int, PRIMARY KEY (k, c, d)) WITH COMPACT STORAGE",
    "ALTER TABLE had DROP COMPACT STORAGE",
    "INSERT INTO t (k, a, b, n, l) VALUES (1, 1, 2, 2147483647, [7])",
    "CREATE INDEX ON t (a)",
];

/// A statement that means something else in Cassandra.
struct Changed {
    what: &'static str,
    cassandra: &'static str,
    carnet: &'static str,
    /// Statements; the list shows the first one.
    script: &'static [&'static str],
    /// Part of the answer to the last statement.
    answer: &'static str,
}

/// A form that only one of both takes.
struct Form {
    form: &'static str,
    reason: &'static str,
    example: &'static str,
}

const CHANGED: [Changed; 10] = [
    Changed {
        what: "statements of one batch",
        cassandra: "share a timestamp: a delete wins over an insert of the same row",
        carnet: "run in their order: the last wins; as in Cassandra where the server [records timestamps](#timestamps)",
        script: &[
            "BEGIN BATCH DELETE FROM t WHERE k = 2; INSERT INTO t (k, b) VALUES (2, 5); APPLY BATCH",
            "SELECT b FROM t WHERE k = 2",
        ],
        answer: "\n5\n",
    },
    Changed {
        what: "addition to a column",
        cassandra: "only counters",
        carnet: "[counters](#counters), and any numeric column, which is read: `null + 1` is null; overflow is an error",
        script: &["UPDATE t SET b = b + 1 WHERE k = 1", "SELECT b FROM t WHERE k = 1"],
        answer: "\n3\n",
    },
    Changed {
        what: "`USING TIMESTAMP`",
        cassandra: "orders writes",
        carnet: "refused, [ignored, or compared](#timestamps) with stored values: transactions have an order, and deletions leave \
                 no trace",
        script: &["INSERT INTO t (k, b) VALUES (1, 9) USING TIMESTAMP 5"],
        answer: "USING TIMESTAMP",
    },
    Changed {
        what: "`DROP` of a column `USING TIMESTAMP n`, then `ADD`",
        cassandra: "values that were written after `n` come back",
        carnet: "the column [has no old values](#dropped-columns); `n` is listed in `system_schema.dropped_columns`",
        script: &[
            "ALTER TABLE t DROP b USING TIMESTAMP 1",
            "ALTER TABLE t ADD b int",
            "SELECT b FROM t WHERE k = 1",
        ],
        answer: "\nnull\n",
    },
    Changed {
        what: "range deletes",
        cassandra: "write a range tombstone",
        carnet: "read the range and delete its rows, in one transaction",
        script: &["DELETE FROM r WHERE k = 1 AND c > 0", "SELECT count(*) FROM r"],
        answer: "\n0\n",
    },
    Changed {
        what: "table options",
        cassandra: "used",
        carnet: "checked, stored and described as in Cassandra 5.0, but without effect. \
                 [`default_time_to_live`](#time-to-live) has its effect, and `id` is the id that drivers see",
        script: &[
            "ALTER TABLE t WITH gc_grace_seconds = 60",
            "SELECT gc_grace_seconds FROM system_schema.tables WHERE keyspace_name = 'ks' AND table_name = 't'",
        ],
        answer: "\n60\n",
    },
    Changed {
        what: "replication of `system_auth`, `system_distributed` or `system_traces`",
        cassandra: "moves its data",
        carnet: "accepted without effect, with a warning",
        script: &[
            "ALTER KEYSPACE system_auth WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
        ],
        answer: "ok",
    },
    Changed {
        what: "`inet` `::ffff:1.2.3.4`",
        cassandra: "16 bytes where it is bound",
        carnet: "the same as `1.2.3.4`",
        script: &[
            "INSERT INTO t (k, i) VALUES (1, '::ffff:1.2.3.4')",
            "SELECT i FROM t WHERE i = '1.2.3.4' ALLOW FILTERING",
        ],
        answer: "'1.2.3.4'",
    },
    Changed {
        what: "replication",
        cassandra: "used",
        carnet: "checked, stored and described as in Cassandra: there is one copy, in [one data centre](#replication)",
        script: &[
            "CREATE KEYSPACE three WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 3}",
            "SELECT replication FROM system_schema.keyspaces WHERE keyspace_name = 'three'",
        ],
        answer: "'replication_factor': '3'",
    },
    Changed {
        what: "`DESCRIBE` of a table of [`COMPACT STORAGE`](cql/tables.md#compact-storage)",
        cassandra: "a comment",
        carnet: "the statement that creates it",
        script: &[
            "CREATE TABLE old (k int PRIMARY KEY, v int) WITH COMPACT STORAGE",
            "DESCRIBE TABLE old",
        ],
        answer: "'CREATE TABLE ks.old (",
    },
];

const ONLY_IN_CARNET: [Form; 7] = [
    Form {
        form: "calculation with columns",
        reason: "the row is read in the same transaction",
        example: "UPDATE t SET a = b + 1 WHERE k = 1",
    },
    Form {
        form: "comparison, `IN`, `LIKE` or several relations over indexes, without `ALLOW FILTERING`",
        reason: "entries are in the order of their values, and never stale",
        example: "SELECT k FROM t WHERE a IN (1, 2)",
    },
    Form {
        form: "`ANN OF` without an index, if filtering is allowed",
        reason: "an index would not be faster: the vectors of all rows are compared",
        example: "SELECT k FROM t ORDER BY v ANN OF [1, 2] LIMIT 1 ALLOW FILTERING",
    },
    Form {
        form: "marker or null beside a constant in a calculation",
        reason: "it has the type of the other operand",
        example: "SELECT a + ? FROM t",
    },
    Form {
        form: "element of a list in a selection",
        reason: "it is read like one of a map",
        example: "SELECT l[0] FROM t",
    },
    Form {
        form: "collection in a type, without `frozen`",
        reason: "it is frozen in any case",
        example: "CREATE TYPE u (l list<int>)",
    },
    Form {
        form: "`CREATE TABLE … LIKE`",
        reason: "it is Cassandra 5.1's",
        example: "CREATE TABLE u LIKE t",
    },
];

/// Forms that Carnet refuses, each with a word of its error.
const ONLY_IN_CASSANDRA: [(Form, &str); 20] = [
    (
        Form {
            form: "integer calculation beyond the range of its type",
            reason: "Cassandra's result has the wrong sign",
            example: "SELECT n + 1 FROM t",
        },
        "range",
    ),
    (
        Form {
            form: "index for `LIKE` that folds letters",
            reason: "`LIKE` compares stored texts; an index `USING 'sai'` folds for `=`",
            example: "CREATE CUSTOM INDEX ON t (w) USING 'org.apache.cassandra.index.sasi.SASIIndex' WITH OPTIONS = \
                      {'analyzer_class': 'org.apache.cassandra.index.sasi.analyzer.NonTokenizingAnalyzer', \
                      'case_sensitive': 'false'}",
        },
        "case_sensitive",
    ),
    (
        Form {
            form: "index with an analyzer that divides texts",
            reason: "entries are whole values: index the words as a `set<text>`",
            example: "CREATE CUSTOM INDEX ON t (w) USING 'org.apache.cassandra.index.sasi.SASIIndex' WITH OPTIONS = \
                      {'analyzer_class': 'org.apache.cassandra.index.sasi.analyzer.StandardAnalyzer'}",
        },
        "set<text>",
    ),
    (
        Form {
            form: "several indexes on a column, of different classes",
            reason: "one index serves the queries of both",
            example: "CREATE CUSTOM INDEX second ON t (a) USING 'sai'",
        },
        "duplicate",
    ),
    (
        Form {
            form: "`GROUP BY` of a function",
            reason: "groups are of columns of the key",
            example: "SELECT k, count(*) FROM e GROUP BY k, floor(at, 1h)",
        },
        "GROUP BY floor",
    ),
    (
        Form {
            form: "`GROUP BY` with `ORDER BY` over several partitions",
            reason: "not built: rows in the merged order of several partitions are not grouped",
            example: "SELECT k, count(*) FROM r WHERE k IN (1, 2) GROUP BY k ORDER BY c",
        },
        "GROUP BY with ORDER BY",
    ),
    (
        Form {
            form: "aggregates together with `writetime`, `ttl` or `token` in one term",
            reason: "not built: select both",
            example: "SELECT max(v) + ttl(v) FROM r",
        },
        "select both",
    ),
    (
        Form {
            form: "`token` of values in a selection",
            reason: "not built: in `WHERE` it takes values",
            example: "SELECT token(1) FROM t",
        },
        "token() of values",
    ),
    (
        Form {
            form: "`MASKED WITH` at a column",
            reason: "not built: the [masking functions](#functions) work in selections",
            example: "CREATE TABLE u (k int PRIMARY KEY, v text MASKED WITH DEFAULT)",
        },
        "MASKED WITH",
    ),
    (
        Form {
            form: "functions of users",
            reason: "the server runs no code of users",
            example: "CREATE FUNCTION f (i int) CALLED ON NULL INPUT RETURNS int LANGUAGE java AS 'return i;'",
        },
        "CREATE FUNCTION",
    ),
    (
        Form {
            form: "aggregates of users",
            reason: "the server runs no code of users",
            example: "CREATE AGGREGATE f (int) SFUNC g STYPE int",
        },
        "CREATE AGGREGATE",
    ),
    (
        Form {
            form: "triggers",
            reason: "the server runs no code of users",
            example: "CREATE TRIGGER audit ON t USING 'com.example.Audit'",
        },
        "CREATE TRIGGER",
    ),
    (
        Form {
            form: "`token()` in the `WHERE` of an `UPDATE` or `DELETE`",
            reason: "Cassandra ignores it",
            example: "UPDATE t SET b = 1 WHERE k = 1 AND token(k) = token(1)",
        },
        "token",
    ),
    (
        Form {
            form: "index on a clustering column of a table that had `COMPACT STORAGE`",
            reason: "a row may lack its last clustering columns",
            example: "CREATE INDEX ON had (d)",
        },
        "COMPACT STORAGE",
    ),
    (
        Form {
            form: "view of a table of `COMPACT STORAGE` with several clustering columns",
            reason: "a row may lack its last clustering columns",
            example: "CREATE MATERIALIZED VIEW by_v AS SELECT * FROM dense WHERE v IS NOT NULL AND k IS NOT NULL AND \
                      c IS NOT NULL AND d IS NOT NULL PRIMARY KEY (v, k, c, d)",
        },
        "COMPACT STORAGE",
    ),
    (
        Form {
            form: "types of Thrift by the name of their class",
            reason: "they have no literals in CQL",
            example: "CREATE TABLE thrift (k int PRIMARY KEY, v 'LexicalUUIDType')",
        },
        "LexicalUUIDType",
    ),
    (
        Form {
            form: "composite and dynamic types of Thrift",
            reason: "they have no literals in CQL",
            example: "CREATE TABLE thrift (k int PRIMARY KEY, v 'CompositeType(Int32Type,UTF8Type)')",
        },
        "CompositeType",
    ),
    (
        Form {
            form: "`UserType` of a type that does not exist or has other fields, by the name of the class",
            reason: "the class stands for the type of the keyspace",
            example: "CREATE TABLE own (k int PRIMARY KEY, v 'UserType(ks,6e6f6e65)')",
        },
        "Unknown type ks.none",
    ),
    (
        Form {
            form: "class of your own as a type",
            reason: "the server runs no code of users",
            example: "CREATE TABLE own (k int PRIMARY KEY, v 'com.example.OwnType')",
        },
        "com.example.OwnType",
    ),
    (
        Form {
            form: "empty value in a clustering key, or behind an index",
            reason: "a legacy of Thrift, for which the order of numbers in keys has no place",
            example: "INSERT INTO r (k, c) VALUES (1, blobAsInt(0x))",
        },
        "empty",
    ),
];

/// A database with the schema of the examples.
struct Fixture {
    executor: Executor,
    session: Session,
}

impl Fixture {
    fn new() -> Self {
        let node = NodeInfo::local(Uuid::from_u64_pair(1, 2));
        let executor = Executor::new(Db::builder().in_memory(), node);
        let fixture = Self { executor, session: Session::new() };
        for statement in SCHEMA {
            fixture.run(statement).unwrap_or_else(|error| panic!("{statement}: {error}"));
        }
        fixture
    }

    /// Runs a statement, or prepares one with markers; returns its answer.
    fn run(&self, statement: &str) -> Result<String, String> {
        let error = |error: carnet_cql::CqlError| error.to_string();
        if statement.contains('?') {
            block_on(self.executor.prepare(&self.session, statement, None)).map_err(error)?;
            return Ok("prepared".to_owned());
        }
        let parameters = Parameters::default();
        let answer = self.executor.query(&self.session, statement, &parameters);
        Ok(match block_on(answer).map_err(error)? {
            Response::Rows(rows) => table::table(&rows),
            _ => "ok".to_owned(),
        })
    }
}

#[test]
fn examples_show_their_differences() {
    for Changed { script, answer, .. } in CHANGED {
        let fixture = Fixture::new();
        let (last, before) = script.split_last().unwrap();
        for statement in before {
            fixture.run(statement).unwrap_or_else(|error| panic!("{statement}: {error}"));
        }
        let last = fixture.run(last).unwrap_or_else(|error| error);
        assert!(last.contains(answer), "{script:?}: {last}");
    }
    for Form { example, .. } in ONLY_IN_CARNET {
        Fixture::new().run(example).unwrap_or_else(|error| panic!("{example}: {error}"));
    }
    for (Form { example, .. }, word) in ONLY_IN_CASSANDRA {
        let error = Fixture::new().run(example).expect_err(example);
        assert!(error.contains(word), "{example} is refused for another reason: {error}");
    }
}

fn list() -> String {
    let mut list = String::from("| | Cassandra | Carnet | example |\n| --- | --- | --- | --- |\n");
    for Changed { what, cassandra, carnet, script, .. } in CHANGED {
        list.push_str(&format!("| {what} | {cassandra} | {carnet} | `{}` |\n", script[0]));
    }
    list.push_str(
        "\nThese forms work in Carnet and are refused by Cassandra. `crates/cql/testscripts/cassandra` has both answers:\n\n",
    );
    push_forms(&mut list, ONLY_IN_CARNET.iter());
    list.push_str("\nThese are refused in Carnet and work in Cassandra:\n\n");
    push_forms(&mut list, ONLY_IN_CASSANDRA.iter().map(|(form, _)| form));
    list
}

fn push_forms<'a>(list: &mut String, forms: impl Iterator<Item = &'a Form>) {
    list.push_str("| form | reason | example |\n| --- | --- | --- |\n");
    for Form { form, reason, example } in forms {
        list.push_str(&format!("| {form} | {reason} | `{example}` |\n"));
    }
}

#[test]
fn page_has_the_list() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(PAGE);
    let page = fs::read_to_string(&path).unwrap();
    let (head, rest) = page.split_once(BEGIN).unwrap();
    let (found, tail) = rest.split_once(END).unwrap();
    if env::var("UPDATE_GOLDENFILES").is_ok_and(|update| update == "1") {
        fs::write(&path, format!("{head}{BEGIN}{}{END}{tail}", list())).unwrap();
    } else {
        assert_eq!(found, list(), "UPDATE_GOLDENFILES=1 writes docs/cql.md anew");
    }
}
