//! Permissions of roles: what each statement needs, and when a change of the roles takes effect.

use std::collections::BTreeSet;

use carnet::{Db, Uuid, block_on};
use carnet_cql::ast::{BatchKind, LevelStatement, OpenStatement, RoleStatement, Statement, Write};
use carnet_cql::result::{Response, Rows};
use carnet_cql::system::NodeInfo;
use carnet_cql::{
    BatchItem, CqlError, CqlErrorKind, Executor, Limits, Parameters, Session, Values, parse,
    redacted,
};

/// Statements of `ann`, with the permissions that each needs, no more and no less.
const CASES: &[(&str, &[&str])] = &[
    ("SELECT v FROM ks.t WHERE k = 1", &["SELECT ON ks.t"]),
    ("SELECT JSON * FROM ks.t", &["SELECT ON ks.t"]),
    ("SELECT k FROM ks.t WHERE v = 1", &["SELECT ON ks.t"]),
    ("SELECT k FROM ks.mv WHERE v = 1", &["SELECT ON ks.t"]),
    ("SELECT key FROM system.local", &[]),
    ("SELECT table_name FROM system_schema.tables", &[]),
    ("SELECT name FROM system_views.settings", &["SELECT ON system_views.settings"]),
    ("SELECT address FROM system_views.clients", &[]),
    ("SELECT key FROM system_views.row_waits", &["SELECT ON system_views.row_waits"]),
    ("SELECT key FROM system_views.lost_rows", &["SELECT ON system_views.lost_rows"]),
    ("SELECT role FROM system_auth.roles", &["SELECT ON system_auth.roles"]),
    (
        "SELECT v FROM ks.t WHERE k = 1 USING SERVICE LEVEL gold",
        &["SELECT ON ks.t", "EXECUTE ON SERVICE LEVEL gold"],
    ),
    ("INSERT INTO ks.t (k, v) VALUES (1, 2)", &["MODIFY ON ks.t"]),
    ("INSERT INTO ks.t (k) VALUES (9) IF NOT EXISTS", &["MODIFY ON ks.t", "SELECT ON ks.t"]),
    ("UPDATE ks.t SET v = 2 WHERE k = 1", &["MODIFY ON ks.t"]),
    ("UPDATE ks.t SET v = 2 WHERE k = 1 IF v = 1", &["MODIFY ON ks.t", "SELECT ON ks.t"]),
    ("UPDATE ks.t SET v = 2 WHERE k = 1 IF EXISTS", &["MODIFY ON ks.t", "SELECT ON ks.t"]),
    ("DELETE FROM ks.t WHERE k = 1", &["MODIFY ON ks.t"]),
    ("DELETE FROM ks.t WHERE k = 1 IF EXISTS", &["MODIFY ON ks.t", "SELECT ON ks.t"]),
    (
        "BEGIN BATCH INSERT INTO ks.t (k) VALUES (1); DELETE FROM ks.u WHERE k = 1; APPLY BATCH",
        &["MODIFY ON ks.t", "MODIFY ON ks.u"],
    ),
    (
        "BEGIN TRANSACTION LET a = (SELECT v FROM ks.t WHERE k = 1); IF a.v = 1 THEN \
         UPDATE ks.u SET v = 1 WHERE k = 1; ELSE DELETE FROM ks.w WHERE k = 1; END IF \
         COMMIT TRANSACTION",
        &["SELECT ON ks.t", "MODIFY ON ks.u", "MODIFY ON ks.w"],
    ),
    ("BEGIN TRANSACTION SELECT v FROM ks.t WHERE k = 1; COMMIT TRANSACTION", &["SELECT ON ks.t"]),
    ("START TRANSACTION", &[]),
    ("COMMIT", &[]),
    ("ROLLBACK", &[]),
    ("KILL TRANSACTION 00000000-0000-0000-0000-000000000000", &[]),
    ("SELECT outcome(1)", &[]),
    ("USE ks", &[]),
    (
        "CREATE KEYSPACE n WITH replication = {'class': 'SimpleStrategy'}",
        &["CREATE ON ALL KEYSPACES"],
    ),
    ("ALTER KEYSPACE ks WITH durable_writes = true", &["ALTER ON KEYSPACE ks"]),
    ("DROP KEYSPACE ks", &["DROP ON KEYSPACE ks"]),
    ("CREATE TABLE ks.n (k int PRIMARY KEY)", &["CREATE ON ALL TABLES IN KEYSPACE ks"]),
    ("CREATE TABLE ks.n LIKE ks.t", &["CREATE ON KEYSPACE ks", "SELECT ON ks.t"]),
    ("ALTER TABLE ks.t ADD w int", &["ALTER ON ks.t"]),
    ("DROP TABLE ks.u", &["DROP ON ks.u"]),
    ("TRUNCATE ks.t", &["MODIFY ON ks.t"]),
    ("CREATE TYPE ks.n (a int)", &["CREATE ON KEYSPACE ks"]),
    ("ALTER TYPE ks.ty ADD b int", &["ALTER ON KEYSPACE ks"]),
    ("DROP TYPE ks.ty", &["DROP ON KEYSPACE ks"]),
    ("CREATE INDEX n ON ks.u (v)", &["ALTER ON ks.u"]),
    ("DROP INDEX ks.i", &["ALTER ON ks.t"]),
    (
        "CREATE MATERIALIZED VIEW ks.n AS SELECT * FROM ks.u WHERE v IS NOT NULL AND k IS NOT NULL \
         PRIMARY KEY (v, k)",
        &["ALTER ON ks.u"],
    ),
    ("ALTER MATERIALIZED VIEW ks.mv WITH comment = 'c'", &["ALTER ON ks.t"]),
    ("DROP MATERIALIZED VIEW ks.mv", &["ALTER ON ks.t"]),
    ("DESCRIBE KEYSPACE ks", &[]),
    ("SHOW BOTTLENECK", &["SELECT ON system_views.bottleneck"]),
    ("EXPLAIN SELECT v FROM ks.t WHERE k = 1", &["SELECT ON ks.t"]),
    (
        "EXPLAIN SELECT v FROM ks.t WHERE k = 1 USING SERVICE LEVEL gold",
        &["SELECT ON ks.t", "EXECUTE ON SERVICE LEVEL gold"],
    ),
    ("KILL STATEMENT 7", &["MODIFY ON system_views.queries"]),
    ("CREATE TRIGGER n", &[]),
    ("CREATE SERVICE LEVEL n", &["CREATE ON ALL SERVICE LEVELS"]),
    ("ALTER SERVICE LEVEL gold WITH shares = 7", &["ALTER ON SERVICE LEVEL gold"]),
    ("DROP SERVICE LEVEL gold", &["DROP ON SERVICE LEVEL gold"]),
    ("ATTACH SERVICE LEVEL gold TO bob", &["AUTHORIZE ON SERVICE LEVEL gold"]),
    ("DETACH SERVICE LEVEL FROM bob", &["AUTHORIZE ON ALL SERVICE LEVELS"]),
    ("LIST SERVICE LEVEL gold", &["DESCRIBE ON SERVICE LEVEL gold"]),
    ("LIST ALL SERVICE LEVELS", &["DESCRIBE ON ALL SERVICE LEVELS"]),
    ("LIST ATTACHED SERVICE LEVEL OF bob", &["DESCRIBE ON ALL SERVICE LEVELS"]),
    ("LIST ATTACHED SERVICE LEVEL OF ann", &[]),
    ("LIST EFFECTIVE SERVICE LEVEL OF ann", &[]),
    ("LIST EFFECTIVE SERVICE LEVEL OF bob", &["DESCRIBE ON ALL SERVICE LEVELS"]),
    ("CREATE ROLE n", &["CREATE ON ALL ROLES"]),
    ("ALTER ROLE bob WITH LOGIN = true", &["ALTER ON ROLE bob"]),
    ("ALTER ROLE ann WITH LOGIN = false", &["ALTER ON ROLE ann"]),
    ("DROP ROLE bob", &["DROP ON ROLE bob"]),
    ("LIST ROLES", &[]),
    ("LIST ROLES OF bob", &["DESCRIBE ON ALL ROLES"]),
    ("LIST USERS", &[]),
    ("LIST SUPERUSERS", &[]),
    ("GRANT bob TO carl", &["AUTHORIZE ON ROLE bob"]),
    ("REVOKE staff FROM bob", &["AUTHORIZE ON ROLE staff"]),
    ("GRANT SELECT ON ks.t TO bob", &["AUTHORIZE ON ks.t", "SELECT ON ks.t"]),
    ("REVOKE MODIFY ON ks.t FROM bob", &["AUTHORIZE ON ks.t", "MODIFY ON ks.t"]),
    ("LIST ALL PERMISSIONS OF ann", &[]),
    ("ADD IDENTITY 'n' TO ROLE 'bob'", &["AUTHORIZE ON ROLE bob"]),
    ("DROP IDENTITY 'id'", &["AUTHORIZE ON ROLE bob"]),
    ("LIST IDENTITIES", &[]),
];

/// Number of kinds of statements.
const KINDS: usize = 56;

/// Returns the number of a statement's kind. A new statement does not compile without a number here,
/// and a number without a case fails.
const fn kind(statement: &Statement) -> usize {
    match statement {
        Statement::Select(_) => 0,
        Statement::Write(Write::Insert(_)) => 1,
        Statement::Write(Write::Update(_)) => 2,
        Statement::Write(Write::Delete(_)) => 3,
        Statement::Batch(_) => 4,
        Statement::Transaction(_) => 5,
        Statement::Open(OpenStatement::Start(_)) => 6,
        Statement::Open(OpenStatement::Commit(_)) => 7,
        Statement::Open(OpenStatement::Rollback(_)) => 8,
        Statement::Open(OpenStatement::Kill(_)) => 9,
        Statement::Open(OpenStatement::Outcome(_) | OpenStatement::Outcomes(_)) => 10,
        Statement::Use(_) => 11,
        Statement::CreateKeyspace(_) => 12,
        Statement::AlterKeyspace(_) => 13,
        Statement::DropKeyspace(_) => 14,
        Statement::CreateTable(_) => 15,
        Statement::CopyTable(_) => 16,
        Statement::AlterTable(_) => 17,
        Statement::DropTable(_) => 18,
        Statement::CreateType(_) => 19,
        Statement::AlterType(_) => 20,
        Statement::DropType(_) => 21,
        Statement::CreateIndex(_) => 22,
        Statement::DropIndex(_) => 23,
        Statement::CreateView(_) => 24,
        Statement::AlterView(_) => 25,
        Statement::DropView(_) => 26,
        Statement::Truncate(..) => 27,
        Statement::Describe(_) => 28,
        Statement::ShowBottleneck => 29,
        Statement::Unsupported(_) => 30,
        Statement::Level(LevelStatement::Create { .. }) => 31,
        Statement::Level(LevelStatement::Alter { .. }) => 32,
        Statement::Level(LevelStatement::Drop { .. }) => 33,
        Statement::Level(LevelStatement::Attach { .. }) => 34,
        Statement::Level(LevelStatement::Detach { .. }) => 35,
        Statement::Level(LevelStatement::List(None)) => 36,
        Statement::Level(LevelStatement::List(Some(_))) => 37,
        Statement::Level(LevelStatement::ListAttached(_)) => 38,
        Statement::Level(LevelStatement::ListEffective(_)) => 39,
        Statement::Role(RoleStatement::Create { .. }) => 40,
        Statement::Role(RoleStatement::Alter { .. }) => 41,
        Statement::Role(RoleStatement::Drop { .. }) => 42,
        Statement::Role(RoleStatement::List { .. }) => 43,
        Statement::Role(RoleStatement::ListUsers) => 44,
        Statement::Role(RoleStatement::ListSuperusers) => 45,
        Statement::Role(RoleStatement::GrantRole { .. }) => 46,
        Statement::Role(RoleStatement::RevokeRole { .. }) => 47,
        Statement::Role(RoleStatement::Grant { .. }) => 48,
        Statement::Role(RoleStatement::Revoke { .. }) => 49,
        Statement::Role(RoleStatement::ListPermissions { .. }) => 50,
        Statement::Role(RoleStatement::AddIdentity { .. }) => 51,
        Statement::Role(RoleStatement::DropIdentity { .. }) => 52,
        Statement::Role(RoleStatement::ListIdentities) => 53,
        Statement::KillStatement(_) => 54,
        Statement::Explain(_) => 55,
    }
}

/// A user of the password file.
const USER: &str = "ultra";

/// An executor of a database with a role `ann`, and what the cases name.
fn executor() -> Executor {
    let node = NodeInfo::local(Uuid::from_u64_pair(1, 2));
    let executor = Executor::new(Db::builder().in_memory(), node);
    executor.set_users([USER.to_owned()]);
    for text in [
        "CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy'}",
        "CREATE TABLE ks.t (k int PRIMARY KEY, v int)",
        "CREATE TABLE ks.u (k int PRIMARY KEY, v int)",
        "CREATE TABLE ks.w (k int PRIMARY KEY, v int)",
        "CREATE TYPE ks.ty (a int)",
        "CREATE INDEX i ON ks.t (v)",
        "CREATE MATERIALIZED VIEW ks.mv AS SELECT * FROM ks.t WHERE v IS NOT NULL AND k IS NOT NULL \
         PRIMARY KEY (v, k)",
        "INSERT INTO ks.t (k, v) VALUES (1, 1)",
        "CREATE SERVICE LEVEL gold",
        "CREATE ROLE ann WITH LOGIN = true",
        "CREATE ROLE bob",
        "CREATE ROLE carl",
        "CREATE ROLE staff",
        "GRANT staff TO bob",
        "ADD IDENTITY 'id' TO ROLE 'bob'",
    ] {
        admin(&executor, text);
    }
    executor
}

fn query(executor: &Executor, session: &Session, text: &str) -> Result<Response, CqlError> {
    block_on(executor.query(session, text, &Parameters::default()))
}

/// Runs a statement that is not checked.
fn admin(executor: &Executor, text: &str) -> Response {
    let done = query(executor, &Session::new(), text);
    done.unwrap_or_else(|error| panic!("{text}: {error}"))
}

fn ann() -> Session {
    Session::with_name("ann@127.0.0.1:1").with_role("ann")
}

/// Returns why a statement of `ann` is refused; `None` if it may run, whatever becomes of it.
fn refusal(executor: &Executor, text: &str) -> Option<String> {
    refused(query(executor, &ann(), text))
}

fn refused<T>(result: Result<T, CqlError>) -> Option<String> {
    let error = result.err()?;
    (*error.kind() == CqlErrorKind::Unauthorized).then(|| error.message().to_owned())
}

fn grant(executor: &Executor, permission: &str) {
    admin(executor, &format!("GRANT {permission} TO ann"));
}

#[test]
fn each_statement_needs_its_permissions_and_no_others() {
    let mut kinds = BTreeSet::new();
    for (text, needed) in CASES {
        kinds.insert(kind(&parse(text, &Limits::default()).unwrap().statement));
        let all = executor();
        needed.iter().for_each(|permission| grant(&all, permission));
        assert_eq!(refusal(&all, text), None, "{text} with {needed:?}");
        for missing in *needed {
            let executor = executor();
            let others = needed.iter().filter(|permission| *permission != missing);
            others.for_each(|permission| grant(&executor, permission));
            let why =
                refusal(&executor, text).unwrap_or_else(|| panic!("{text} without {missing}"));
            let permission = missing.split(' ').next().unwrap();
            let expected = format!("role ann has no {permission} permission on <");
            assert!(why.starts_with(&expected), "{text} without {missing}: {why}");
        }
    }
    assert_eq!(kinds, (0..KINDS).collect(), "each kind has a case");
}

#[test]
fn refusal_names_role_permission_resource_and_remedy() {
    assert_eq!(
        refusal(&executor(), "SELECT v FROM ks.t WHERE k = 1").unwrap(),
        "role ann has no SELECT permission on <table ks.t> or any of its parents: a superuser may GRANT \
         SELECT ON TABLE ks.t TO ann"
    );
}

#[test]
fn permissions_are_inherited_from_roles_and_parents() {
    let select = "SELECT v FROM ks.t WHERE k = 1";
    for on in ["ALL KEYSPACES", "KEYSPACE ks", "ALL TABLES IN KEYSPACE ks", "TABLE ks.t"] {
        let executor = executor();
        admin(&executor, &format!("GRANT SELECT ON {on} TO staff"));
        assert!(refusal(&executor, select).is_some());
        admin(&executor, "GRANT bob TO ann");
        assert_eq!(refusal(&executor, select), None, "{on}");
    }
}

#[test]
fn superuser_may_do_everything_and_status_is_inherited() {
    let executor = executor();
    admin(&executor, "CREATE ROLE root WITH SUPERUSER = true");
    admin(&executor, "GRANT root TO ann");
    for (text, _) in CASES.iter().filter(|(text, _)| !text.contains("ALTER ROLE ann")) {
        assert_eq!(refusal(&executor, text), None, "{text}");
    }
}

#[test]
fn only_superusers_touch_superusers() {
    let executor = executor();
    admin(&executor, "CREATE ROLE root WITH SUPERUSER = true AND PASSWORD = 'x'");
    grant(&executor, "ALL ON ALL ROLES");
    for text in [
        "CREATE ROLE n WITH SUPERUSER = true",
        "ALTER ROLE root WITH PASSWORD = 'y'",
        "ALTER ROLE bob WITH SUPERUSER = true",
        "ALTER ROLE ann WITH SUPERUSER = true",
        "DROP ROLE root",
        "GRANT root TO ann",
        "ADD IDENTITY 'n' TO ROLE 'root'",
        "LIST ALL PERMISSIONS",
        "LIST ALL PERMISSIONS OF root",
    ] {
        assert!(refusal(&executor, text).is_some(), "{text}");
    }
    assert_eq!(refusal(&executor, "ALTER ROLE bob WITH PASSWORD = 'y'"), None);
}

#[test]
fn role_changes_its_own_password_and_no_other_option() {
    let executor = executor();
    assert_eq!(refusal(&executor, "ALTER ROLE ann WITH PASSWORD = 'y'"), None);
    assert!(refusal(&executor, "ALTER ROLE ann WITH PASSWORD = 'y' AND LOGIN = true").is_some());
    assert!(refusal(&executor, "ALTER ROLE bob WITH PASSWORD = 'y'").is_some());
}

#[test]
fn creator_has_all_permissions_until_the_object_is_dropped() {
    let executor = executor();
    grant(&executor, "CREATE ON KEYSPACE ks");
    let select = "SELECT k FROM ks.n WHERE k = 1";
    query(&executor, &ann(), "CREATE TABLE ks.n (k int PRIMARY KEY)").unwrap();
    assert_eq!(refusal(&executor, select), None);
    query(&executor, &ann(), "DROP TABLE ks.n").unwrap();
    admin(&executor, "CREATE TABLE ks.n (k int PRIMARY KEY)");
    assert!(refusal(&executor, select).is_some(), "it is another table");
    grant(&executor, "SELECT ON ks.n");
    admin(&executor, "DROP KEYSPACE ks");
    admin(&executor, "CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy'}");
    admin(&executor, "CREATE TABLE ks.n (k int PRIMARY KEY)");
    assert!(refusal(&executor, select).is_some(), "it is a table of another keyspace");
}

#[test]
fn revocation_acts_on_open_sessions() {
    let executor = executor();
    grant(&executor, "SELECT ON ks.t");
    grant(&executor, "MODIFY ON ks.t");
    let (session, parameters) = (ann(), Parameters::default());
    let select = "SELECT v FROM ks.t WHERE k = 1";
    let insert = "INSERT INTO ks.t (k) VALUES (3)";
    let prepared = block_on(executor.prepare(&session, select, None)).unwrap();
    let written = block_on(executor.prepare(&session, insert, None)).unwrap();
    let batch = || {
        let (prepared, values) = (std::sync::Arc::clone(&written), Values::default());
        let items = vec![BatchItem::Prepared { prepared, values }];
        block_on(executor.batch(&session, BatchKind::Logged, items, &parameters))
    };
    let execute = || block_on(executor.execute(&session, &prepared, &parameters));
    let (open, transaction) = (ann(), "START TRANSACTION");
    query(&executor, &open, transaction).unwrap();
    assert_eq!(refused(execute()), None);
    assert_eq!(refused(batch()), None);
    assert_eq!(refused(query(&executor, &open, select)), None);
    admin(&executor, "REVOKE ALL ON ks.t FROM ann");
    assert!(refused(execute()).is_some());
    assert!(refused(batch()).is_some());
    assert!(refused(query(&executor, &open, select)).is_some());
    admin(&executor, "DROP ROLE ann");
    assert_eq!(
        refused(query(&executor, &session, "USE ks")).unwrap(),
        "role ann was dropped: log in as another one"
    );
}

/// All connections share a prepared statement and its plan, which knows nothing of roles.
#[test]
fn plan_that_one_role_has_used_is_checked_for_the_next() {
    let executor = executor();
    grant(&executor, "SELECT ON ks.t");
    grant(&executor, "MODIFY ON ks.t");
    let (ann, bob) = (ann(), Session::with_name("bob@127.0.0.1:2").with_role("bob"));
    let parameters = Parameters::default();
    let select = "SELECT v FROM ks.t WHERE k = 1";
    let insert = "INSERT INTO ks.t (k) VALUES (3)";
    for text in [select, insert] {
        let prepared = block_on(executor.prepare(&ann, text, None)).unwrap();
        let execute = |session| block_on(executor.execute(session, &prepared, &parameters));
        for _ in 0..3 {
            assert_eq!(refused(execute(&ann)), None, "{text}");
            assert!(refused(execute(&bob)).is_some(), "{text}");
        }
    }
    let written = block_on(executor.prepare(&ann, insert, None)).unwrap();
    let batch = |session| {
        let (prepared, values) = (std::sync::Arc::clone(&written), Values::default());
        let items = vec![BatchItem::Prepared { prepared, values }];
        block_on(executor.batch(session, BatchKind::Logged, items, &parameters))
    };
    assert_eq!(refused(batch(&ann)), None);
    assert!(refused(batch(&bob)).is_some());
}

#[test]
fn transactions_of_others_are_ended_with_a_permission() {
    let executor = executor();
    let bob = Session::with_name("bob@127.0.0.1:2").with_role("bob");
    let started = query(&executor, &bob, "START DETACHED TRANSACTION");
    let Ok(Response::Rows(rows)) = started else { panic!("{started:?}") };
    let id = Uuid::from_slice(rows.values()[0][0].as_ref().unwrap()).unwrap();
    let kill = format!("KILL TRANSACTION {id}");
    assert!(refusal(&executor, &kill).is_some());
    assert!(!sees_bob(&executor));
    grant(&executor, "SELECT ON system_views.transactions");
    assert!(sees_bob(&executor));
    grant(&executor, "MODIFY ON system_views.transactions");
    query(&executor, &ann(), &kill).unwrap();
}

/// The owner of a start is not known, so this needs the permission for transactions of others.
#[test]
fn starts_are_aborted_with_a_permission() {
    let executor = executor();
    let kill = "KILL TRANSACTION 5";
    let refused = refusal(&executor, kill).unwrap();
    assert!(refused.contains("MODIFY"), "{refused}");
    grant(&executor, "MODIFY ON system_views.transactions");
    let error = query(&executor, &ann(), kill).unwrap_err();
    assert!(error.message().contains("by their ids"), "a database in memory ends its own: {error}");
}

/// Returns `true` if `ann` sees a transaction of `bob`.
fn sees_bob(executor: &Executor) -> bool {
    let text = "SELECT client FROM system_views.transactions";
    let clients = rows(query(executor, &ann(), text)).values();
    clients.iter().any(|row| row[0].as_ref().is_some_and(|client| client.starts_with(b"bob@")))
}

fn rows(response: Result<Response, CqlError>) -> Rows {
    let Ok(Response::Rows(rows)) = response else { panic!("no rows: {response:?}") };
    rows
}

#[test]
fn sessions_without_a_role_are_not_checked() {
    let executor = executor();
    let read =
        |session: &Session| refused(query(&executor, session, "SELECT v FROM ks.t WHERE k = 1"));
    let user = Session::new().with_user(USER);
    assert_eq!((read(&Session::new()), read(&user)), (None, None));
    executor.set_users(["another".to_owned()]);
    let refusal = read(&user).unwrap();
    assert!(refusal.contains("user ultra was removed from the users file"), "{refusal}");
    assert_eq!(read(&Session::new()), None);
}

#[test]
fn hashes_of_passwords_are_shown_to_superusers_only() {
    let executor = executor();
    grant(&executor, "SELECT ON ALL KEYSPACES");
    let read = |session: &Session| {
        let text = "SELECT salted_hash FROM system_auth.roles WHERE role = 'alice'";
        rows(query(&executor, session, text)).values()
    };
    let session = ann();
    assert_eq!(read(&session).len(), 0);
    admin(&executor, "CREATE ROLE alice WITH PASSWORD = 'secret'");
    assert_eq!(read(&session), [[None]], "a new role is seen at once");
    assert!(read(&Session::new())[0][0].as_ref().unwrap().starts_with(b"$argon2id$"));
    admin(&executor, "ALTER ROLE ann WITH SUPERUSER = true");
    assert!(read(&session)[0][0].is_some());
}

/// The forms of the scripts in Cassandra's documentation and of its tools.
#[test]
fn scripts_for_cassandra_run() {
    let executor = executor();
    for text in [
        "CREATE ROLE alice WITH PASSWORD = 'password_a' AND LOGIN = true",
        "CREATE ROLE al WITH HASHED PASSWORD = \
         '$2a$10$JSJEMFm6GeaW9XxT5JIheuEtPvat6i7uKbnTcxX3c1wshIIsGyUtG' AND LOGIN = true",
        "CREATE ROLE IF NOT EXISTS alice",
        "CREATE ROLE 'dave' WITH PASSWORD = 'p' AND LOGIN = true AND SUPERUSER = true",
        "CREATE ROLE carlos WITH OPTIONS = { 'custom_option1' : 'option1_value', 'custom_option2' : 99 }",
        "CREATE ROLE hal WITH LOGIN = true AND ACCESS TO ALL DATACENTERS AND ACCESS FROM ALL CIDRS",
        "ALTER ROLE dave WITH PASSWORD = 'PASSWORD_B' AND SUPERUSER = false",
        "CREATE USER eve WITH PASSWORD 'password_a' SUPERUSER",
        "CREATE USER IF NOT EXISTS eve WITH PASSWORD 'p' NOSUPERUSER",
        "ALTER USER eve WITH PASSWORD 'PASSWORD_B' NOSUPERUSER",
        "GRANT carlos TO alice",
        "GRANT SELECT ON ALL KEYSPACES TO carlos",
        "GRANT MODIFY ON KEYSPACE ks TO alice",
        "GRANT DROP ON ks.t TO alice",
        "GRANT ALL PERMISSIONS ON ks.u TO alice",
        "GRANT SELECT, MODIFY ON TABLE ks.t TO alice",
        "GRANT CREATE ON ALL ROLES TO alice",
        "LIST ALL PERMISSIONS OF alice",
        "LIST ALL PERMISSIONS ON ks.t OF alice NORECURSIVE",
        "LIST SELECT PERMISSIONS OF carlos",
        "LIST ROLES OF alice NORECURSIVE",
        "LIST USERS",
        "REVOKE SELECT ON ALL KEYSPACES FROM carlos",
        "REVOKE ALL ON ks.u FROM alice",
        "REVOKE carlos FROM alice",
        "ADD IDENTITY 'spiffe://a/b' TO ROLE 'alice'",
        "ADD IDENTITY IF NOT EXISTS 'spiffe://a/b' TO ROLE 'alice'",
        "DROP IDENTITY 'spiffe://a/b'",
        "DROP ROLE alice",
        "DROP ROLE IF EXISTS alice",
        "DROP USER eve",
    ] {
        admin(&executor, text);
    }
}

#[test]
fn passwords_are_stored_as_hashes_only() {
    let executor = executor();
    admin(&executor, "CREATE ROLE alice WITH PASSWORD = 'secret'");
    let roles = executor.db().roles();
    let hash = roles.get("alice").unwrap().password.clone().unwrap();
    assert!(hash.hash().starts_with("$argon2id$"));
    let error = query(&executor, &ann(), "CREATE ROLE x WITH HASHED PASSWORD = 'secret'");
    assert!(!error.unwrap_err().to_string().contains("secret"));
}

#[test]
fn passwords_are_replaced_and_nothing_else() {
    let text = "CREATE ROLE a WITH PASSWORD = 'it''s' AND HASHED password='x' AND LOGIN = true";
    let expected = "CREATE ROLE a WITH PASSWORD = '***' AND HASHED password='***' AND LOGIN = true";
    assert_eq!(redacted(text), expected);
    let other = "SELECT a FROM t WHERE k = 'password'";
    assert_eq!(redacted(other), other);
}

#[test]
fn no_message_has_a_password() {
    for text in [
        "CREATE ROLE a WITH PASSWORD = 'secret' AND",
        "CREATE ROLE a WITH PASSWORD 'secret' BOGUS",
        "CREATE ROLE a PASSWORD = 'secret'",
        "CREATE ROLE a WITH PASSWORD = \"secret\"",
        "CREATE ROLE a WITH PASSWORD = secret",
        "CREATE ROLE a WITH PASSWORD = 'secret",
        "CREATE ROLE a WITH PASSWORD = 'one\nsecret' BOGUS",
        "CREATE USER a WITH PASSWORD = = 'secret'",
        "CREATE USER a WITH HASHED PASSWORD 'secret' OTHERUSER",
        "ALTER ROLE a WITH PASSWORD = 'ésecret' AND PASSWORD = 'secret'",
    ] {
        let error = parse(text, &Limits::default()).unwrap_err();
        let shown = format!("{error} {error:?}");
        assert!(!shown.contains("secret"), "{shown}");
        assert!(!redacted(text).contains("secret"), "{}", redacted(text));
    }
}

#[test]
fn statement_shows_no_password() {
    let text = "CREATE ROLE a WITH PASSWORD = 'secret' AND LOGIN = true";
    let statement = parse(text, &Limits::default()).unwrap().statement;
    assert_eq!(statement.to_string(), redacted(text));
    assert!(!format!("{statement:?}").contains("secret"));
}
