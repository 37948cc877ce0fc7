//! Examples of settings that have no default, and of the options of a cluster's URL.

/// Section, name and value.
#[rustfmt::skip]
const EXAMPLES: &[(&str, &str, &str)] = &[
    ("server", "advertise", "10.0.0.9:9042"),
    ("server", "http_token_file", "token"),
    ("server", "http_hosts", "db1.example.com"),
    ("server", "users", "users"),
    ("server", "connections_per_user", "100"),
    ("server", "memory", "4GiB"),
    ("server", "request_memory", "512MiB"),
    ("server", "request_memory_per_address", "256MiB"),
    ("server", "answer_memory", "512MiB"),
    ("server", "prepared_memory", "64MiB"),
    ("tls", "cert", "tls/server.crt"),
    ("tls", "key", "tls/server.key"),
    ("tls", "client_ca", "tls/ca.crt"),
    ("tls", "client_crl", "tls/ca.crl"),
    ("tls", "clients", "required"),
    ("audit", "log", "audit.log"),
    ("audit", "include_users", "ann, bob"),
    ("audit", "exclude_users", "monitor"),
    ("audit", "include_keyspaces", "bank"),
    ("audit", "exclude_keyspaces", "scratch"),
    ("database", "memory", "2GiB"),
    ("database", "transaction_memory", "256MiB"),
    ("limits", "running", "16"),
    ("limits", "transactions_per_client", "500"),
    ("limits", "requests_per_client", "10000"),
    ("cluster", "url", "cassandra://carnet@10.0.0.1,10.0.0.2/bank"),
    ("cluster", "local_dc", "dc1"),
    ("cluster", "consistency", "quorum"),
    ("cluster", "replication", "3"),
    ("cluster", "password_file", "password"),
    ("cluster", "ca", "ca.crt"),
    ("cluster", "cert", "client.crt"),
    ("cluster", "key", "client.key"),
    ("cluster", "check_names", "true"),
    ("cluster", "keepalive", "1s"),
    ("cluster", "request_timeout", "4s"),
    ("cluster", "threads", "1"),
    ("cluster", "listen", "10.0.0.9:9044"),
    ("cluster", "advertise", "db1.example.com:9044"),
    ("cluster", "secret", "16 or more random letters"),
    ("cluster", "secret_file", "secret"),
    ("cluster", "peer_cert", "peer.crt"),
    ("cluster", "peer_key", "peer.key"),
    ("cluster", "peer_ca", "peer-ca.crt"),
    ("cluster", "insecure", "false"),
    ("cluster", "lease", "1s"),
    ("cluster", "leader_timeout", "4500ms"),
    ("cluster", "sweep", "1m"),
    ("cluster", "cell_cache", "64MiB"),
    ("cluster", "encoding", "v3"),
];

/// Returns the example of a setting; empty if it has a default.
pub(super) fn example(section: &str, name: &str) -> &'static str {
    let mut found = EXAMPLES.iter().filter(|known| (known.0, known.1) == (section, name));
    found.next().map_or("", |known| known.2)
}
