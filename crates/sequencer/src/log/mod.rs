//! A database over a cluster, as one process sees it; the leader is this process or another.

mod announcing;
mod cached;
mod cluster_log;
mod commits;
mod forwarding;
mod inner;
mod open_snapshots;
mod reads;
mod requests;
mod snapshots;
mod status;
mod writes;

pub use cluster_log::ClusterLog;
pub use status::Status;
