//! Who waits for whom at a row, and which rows were lost, as roles with different rights see it.

use std::cell::Cell;
use std::future::pending;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Waker};

use carnet::{CellKey, Db, KeyRange, PageLimit, Uuid, Value, block_on, catalog};
use carnet_admission::{AdmissionLimits, AdmissionRequest, Arrived, Class, Level, Workload};
use carnet_cql::result::{Response, Rows};
use carnet_cql::system::NodeInfo;
use carnet_cql::{CqlError, Executor, Grant, Parameters, Session, StatementSource};

const UPDATE: &str = "UPDATE ks.t SET v = v + 1 WHERE k = 7";

fn executor() -> Executor {
    let db = Db::builder().admission(AdmissionLimits::of_server(2)).in_memory();
    let executor = Executor::new(db, NodeInfo::local(Uuid::from_u64_pair(1, 2)));
    for text in [
        "CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy'}",
        "CREATE TABLE ks.t (k int PRIMARY KEY, v int)",
        "INSERT INTO ks.t (k, v) VALUES (7, 1)",
        "CREATE ROLE ann WITH LOGIN = true",
        "GRANT SELECT ON system_views.row_waits TO ann",
        "GRANT SELECT ON system_views.lost_rows TO ann",
        "GRANT SELECT ON system_views.conflicts TO ann",
    ] {
        run(&executor, &Session::new(), text, Grant::default()).unwrap();
    }
    executor
}

fn run(
    executor: &Executor,
    session: &Session,
    text: &str,
    grant: Grant,
) -> Result<Response, CqlError> {
    let parameters = Parameters { grant, ..Parameters::default() };
    block_on(executor.query(session, text, &parameters))
}

fn admitted(executor: &Executor) -> Grant {
    let level = Level::default();
    let request = AdmissionRequest::new(&level, Class::Write, Workload::Unspecified, 1);
    match executor.db().admission().unwrap().arrive(request) {
        Ok(Arrived::Admitted(permit)) => {
            Grant { permit: Some(Arc::new(permit)), ..Grant::default() }
        }
        _ => panic!("there is room"),
    }
}

/// Returns the rows of a query as one text, without the names of types.
fn shown(executor: &Executor, session: &Session, text: &str) -> Vec<String> {
    let Ok(Response::Rows(rows)) = run(executor, session, text, Grant::default()) else {
        panic!("{text}")
    };
    let Rows { columns, .. } = &rows;
    let cell = |(at, cell): (usize, Option<carnet::Bytes>)| match cell {
        Some(bytes) => match columns[at].data_type.deserialize(&bytes).unwrap() {
            Value::Text(text) => text,
            Value::Int(number) => number.to_string(),
            Value::Bigint(number) => number.to_string(),
            value => panic!("{value:?}"),
        },
        None => "-".to_owned(),
    };
    let row = |row: Vec<_>| row.into_iter().enumerate().map(cell).collect::<Vec<_>>().join(" | ");
    rows.values().into_iter().map(row).collect()
}

/// Returns the key of the only row of the table.
fn only_cell(db: &Db) -> CellKey {
    let tx = db.snapshot().unwrap();
    let table = block_on(catalog::table(tx.as_async(), "ks", "t")).unwrap().unwrap();
    let range = KeyRange::table(table.id);
    let page = block_on(tx.as_async().range_cells(&range, false, PageLimit::cells(2))).unwrap();
    page.cells.iter().next().unwrap().key.to_key()
}

const WAITS: &str = "SELECT queue, place, state, table_name, key, client, statement \
                     FROM system_views.row_waits";

#[test]
fn hot_row_shows_whose_turn_it_is() {
    let executor = executor();
    let (db, key) = (executor.db(), only_cell(executor.db()));
    assert!(shown(&executor, &Session::new(), WAITS).is_empty(), "no statement waits");

    // A transaction of the Rust API loses the row, takes its turn, and keeps it.
    let is_second = Cell::new(false);
    let mut holder = pin!(db.run(|tx| {
        let has_turn = is_second.replace(true);
        let (key, executor) = (key.clone(), &executor);
        async move {
            tx.get_cell(&key).await?;
            if has_turn {
                return pending().await;
            }
            run(executor, &Session::new(), UPDATE, Grant::default()).unwrap();
            tx.delete_cell(key)
        }
    }));
    poll(holder.as_mut());
    let session = Session::with_name("bob@127.0.0.1:7").with_user("bob");
    let grant = admitted(&executor);
    let source = StatementSource::text(UPDATE);
    let _entered = executor.enter(&session, source, db.now(), None, grant.permit.as_ref());
    let parameters = Parameters { grant, ..Parameters::default() };
    let mut waiting = Box::pin(executor.query(&session, UPDATE, &parameters));
    poll(waiting.as_mut());

    let turns = [
        "1 | 1 | has the turn | ks.t | k = 7 | - | -".to_owned(),
        "1 | 2 | waits | ks.t | k = 7 | bob@127.0.0.1:7 | UPDATE ks.t SET v = v + ? WHERE k = ?"
            .to_owned(),
    ];
    assert_eq!(shown(&executor, &Session::new(), WAITS), turns);
    // Without the permission to read the table a role sees no keys.
    let ann = Session::with_name("ann@127.0.0.1:9").with_role("ann");
    assert_eq!(shown(&executor, &ann, WAITS), turns.map(|row| row.replace("k = 7", "-")));
}

fn poll<F: Future>(future: Pin<&mut F>) {
    assert!(future.poll(&mut Context::from_waker(Waker::noop())).is_pending());
}

/// A transaction of the connection loses a row that another statement writes meanwhile.
fn lose(executor: &Executor, row: i32) {
    let session = Session::with_name("bob@127.0.0.1:7").with_user("bob");
    let run = |session: &Session, text: &str| run(executor, session, text, admitted(executor));
    run(&session, &format!("INSERT INTO ks.t (k, v) VALUES ({row}, 1)")).unwrap();
    run(&session, "START TRANSACTION").unwrap();
    run(&session, &format!("UPDATE ks.t SET v = v + 1 WHERE k = {row}")).unwrap();
    run(&Session::new(), &format!("UPDATE ks.t SET v = 5 WHERE k = {row}")).unwrap();
    run(&session, "COMMIT").unwrap_err();
}

#[test]
fn rows_are_listed_by_their_losses() {
    let executor = executor();
    for row in [3, 7, 7] {
        lose(&executor, row);
    }
    let text = "SELECT rank, table_name, key, statements, attempts FROM system_views.lost_rows";
    let all = shown(&executor, &Session::new(), text);
    assert_eq!(all, ["1 | ks.t | k = 7 | 2 | 2", "2 | ks.t | k = 3 | 1 | 1"]);

    let ann = Session::with_name("ann@127.0.0.1:9").with_role("ann");
    let without = ["1 | ks.t | - | 2 | 2", "2 | ks.t | - | 1 | 1"];
    assert_eq!(shown(&executor, &ann, text), without);
    let keys = "SELECT key FROM system_views.conflicts";
    assert_eq!(shown(&executor, &ann, keys), ["-"; 3]);
    run(&executor, &Session::new(), "GRANT SELECT ON ks.t TO ann", Grant::default()).unwrap();
    assert_eq!(shown(&executor, &ann, text), all);
    assert_eq!(shown(&executor, &ann, keys), ["k = 7", "k = 7", "k = 3"]);
}
