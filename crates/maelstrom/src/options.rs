//! Settings of a node.

use std::time::Duration;

use carnet_tree::Shape;

/// Settings of a [`Node`](crate::Node).
#[derive(Clone, Debug)]
pub struct Options {
    /// Settings of its tree.
    ///
    /// The default differs from that of [`carnet_tree::Options`]: batches every 10 ms, a retry timeout
    /// below the 5 s after which clients give up, services that are asked again after 1 s, and a
    /// buffer of 2560 bytes, so that a root has at most 3 KiB, which are 4 KiB in base64.
    pub tree: carnet_tree::Options,
    /// The service that keeps nodes: any key-value service. Default: `lww-kv`.
    pub nodes_in: String,
    /// The service that keeps the root: it must be linearizable. Default: `lin-kv`.
    pub root_in: String,
    /// A node that moves the root sends it to the other nodes if there are at most this many; 0
    /// disables these hints. A hint costs a message for each of them, and saves a request and an
    /// answer. Default: 2.
    pub hint_peers_max: usize,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            tree: carnet_tree::Options {
                batch_interval: Duration::from_millis(10),
                retry_timeout: Duration::from_secs(4),
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
