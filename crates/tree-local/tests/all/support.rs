//! Trees on one directory.

use std::sync::Arc;

use carnet_base::{Bytes, SeededRng, SystemClock, ThreadSpawn, ThreadTimer, block_on};
use carnet_storage::disk::Disk;
use carnet_tree::Shape;
use carnet_tree_local::{Answer, Directory, LocalTree, Op, Options, open, options};

/// Options that put a node for most transactions, so that short tests have many.
pub(crate) fn small() -> Options {
    let shape =
        Shape { buffer_bytes: 64, run_bytes_max: 128, leaf_bytes_max: 256, inline_bytes_max: 64 };
    Options { shape, backoff: std::time::Duration::ZERO, ..options() }
}

pub(crate) fn tree(disk: Arc<dyn Disk>, seed: u64, options: Options) -> Opened {
    try_tree(disk, seed, options).unwrap()
}

pub(crate) type Opened = (LocalTree, Directory);

pub(crate) fn try_tree(
    disk: Arc<dyn Disk>,
    seed: u64,
    options: Options,
) -> carnet_base::Result<Opened> {
    let timer = ThreadTimer::lazy(Arc::new(SystemClock), Arc::new(ThreadSpawn));
    let rng = Box::new(SeededRng::new(seed));
    open(disk, true, Arc::new(timer), rng, options)
}

/// Appends a number to the list of its key.
pub(crate) fn append(tree: &LocalTree, key: u64, number: u64) -> carnet_base::Result<()> {
    let op = Op::Append(Bytes::from(format!("key {key}")), Bytes::from(number.to_string()));
    block_on(tree.transact(vec![op])).map(drop)
}

pub(crate) fn list(tree: &LocalTree, key: u64) -> carnet_base::Result<Vec<u64>> {
    let op = Op::ReadList(Bytes::from(format!("key {key}")));
    let answers = block_on(tree.transact(vec![op]))?;
    let [Answer::List(elements)] = &answers[..] else { panic!("{answers:?}") };
    Ok(elements.iter().map(|bytes| std::str::from_utf8(bytes).unwrap().parse().unwrap()).collect())
}
