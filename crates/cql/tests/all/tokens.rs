//! Conditions on tokens.

use carnet::Db;

use crate::support::client::Client;

/// No row has the empty key; its token is the smallest one, which as an upper bound means the end of the ring.
#[test]
fn token_of_the_empty_key_is_the_begin_of_the_ring() {
    let client = Client::new(Db::builder().in_memory());
    client.run("CREATE TABLE t (k text PRIMARY KEY, v int)");
    client.run("CREATE TABLE pair (a text, b text, PRIMARY KEY ((a, b)))");
    for at in 0..20 {
        client.run(&format!("INSERT INTO t (k, v) VALUES ('key{at}', {at})"));
        client.run(&format!("INSERT INTO pair (a, b) VALUES ('a{at}', '')"));
    }
    let count = |text: &str| client.rows(text).values().len();
    for operator in [">", ">=", "<", "<="] {
        assert_eq!(count(&format!("SELECT k FROM t WHERE token(k) {operator} token('')")), 20);
    }
    // The key of several empty parts is not empty.
    let above = count("SELECT a FROM pair WHERE token(a, b) > token('', '')");
    let below = count("SELECT a FROM pair WHERE token(a, b) <= token('', '')");
    assert_eq!(above + below, 20);
    let error = client.refused("INSERT INTO t (k, v) VALUES ('', 1)");
    assert!(error.contains("Key may not be empty"), "{error}");
}
