//! The name of the data centre: drivers read it, and the replication of keyspaces has it.

use carnet::{Db, Uuid, block_on};
use carnet_cql::result::Response;
use carnet_cql::system::NodeInfo;
use carnet_cql::{Executor, Parameters, Session};

use crate::support::table;

struct Server {
    executor: Executor,
    session: Session,
}

impl Server {
    fn new(db: &Db, data_center: Option<&str>) -> Self {
        let node = NodeInfo::local(Uuid::nil());
        let node = match data_center {
            Some(name) => node.in_data_center(name),
            None => node,
        };
        Self { executor: Executor::new(db.clone(), node), session: Session::new() }
    }

    fn run(&self, statement: &str) -> Result<String, String> {
        let parameters = Parameters::default();
        match block_on(self.executor.query(&self.session, statement, &parameters)) {
            Ok(Response::Rows(rows)) => Ok(table::table(&rows)),
            Ok(_) => Ok("ok".to_owned()),
            Err(error) => Err(error.to_string()),
        }
    }

    fn replication(&self) -> String {
        let of_keyspace =
            "SELECT replication FROM system_schema.keyspaces WHERE keyspace_name = 'ks'";
        self.run(of_keyspace).unwrap()
    }
}

#[test]
fn keyspaces_and_drivers_have_its_name() {
    let db = Db::builder().in_memory();
    let server = Server::new(&db, Some("eu-west"));
    let network = "'class': 'NetworkTopologyStrategy'";
    let create = |data_center: &str| {
        server.run(&format!("CREATE KEYSPACE ks WITH replication = {{{network}, {data_center}}}"))
    };
    let refused = create("'datacenter1': 3").unwrap_err();
    assert!(refused.contains("use 'eu-west'"), "{refused}");
    create("'eu-west': 3").unwrap();
    assert!(server.replication().contains("'eu-west': '3'"), "{}", server.replication());
    let local = server.run("SELECT data_center FROM system.local").unwrap();
    assert_eq!(local, "data_center\n'eu-west'\n");
    let described = server.run("DESCRIBE KEYSPACE ks").unwrap();
    assert!(described.contains("''eu-west'': ''3''"), "{described}");
    server.run("ALTER KEYSPACE system_auth WITH replication = {'class': 'NetworkTopologyStrategy', 'eu-west': 3}").unwrap();
}

#[test]
fn keyspaces_take_a_new_name_with_their_factor() {
    let db = Db::builder().in_memory();
    let before = Server::new(&db, None);
    before
        .run("CREATE KEYSPACE ks WITH replication = {'class': 'NetworkTopologyStrategy', 'datacenter1': 3}")
        .unwrap();
    let after = Server::new(&db, Some("eu"));
    let shown = after.replication();
    assert!(shown.contains("'eu': '3'") && !shown.contains("datacenter1"), "{shown}");
    after.run("ALTER KEYSPACE ks WITH durable_writes = false").unwrap();
    assert_eq!(after.replication(), shown);
    let by_default = before.replication();
    assert!(by_default.contains("'datacenter1': '3'"), "{by_default}");
}
