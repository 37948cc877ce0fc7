//! What may be set.

use std::time::Duration;

use carnet_tree::Shape;

/// How a [`Node`](crate::Node) works.
#[derive(Clone, Debug)]
pub struct Options {
    /// How its tree works.
    ///
    /// The default differs from that of [`carnet_tree::Options`]: batches every 10 ms, a patience
    /// that ends before clients lose theirs after 5 s, services that are asked again after 1 s, and
    /// a buffer of 2560 bytes, so that a root has at most 3 KiB, which are 4 KiB in base64.
    pub tree: carnet_tree::Options,
    /// The service that keeps nodes; any key-value service will do. Default: `lww-kv`.
    pub nodes_in: String,
    /// The service that keeps the root; it has to be linearizable. Default: `lin-kv`.
    pub root_in: String,
    /// Who moved the root tells the other nodes, where there are at most so many others; 0 tells
    /// nobody. A hint costs a message for each of them, and saves a request and an answer.
    /// Default: 2.
    pub hint_peers_max: usize,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            tree: carnet_tree::Options {
                batch_interval: Duration::from_millis(10),
                patience: Duration::from_secs(4),
                answer_timeout: Some(Duration::from_secs(1)),
                shape: Shape { buffer_bytes: 2560, ..Shape::default() },
                ..carnet_tree::Options::default()
            },
            nodes_in: "lww-kv".to_owned(),
            root_in: "lin-kv".to_owned(),
            hint_peers_max: 2,
        }
    }
}
