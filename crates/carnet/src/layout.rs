//! Layout of the tables that the façade writes.

use carnet_storage::{Compression, FilterKind, TableOptions};

/// Table options of the façade. Filters cover cells: a raw table is one partition, so that a
/// filter over partitions could not exclude any of its keys.
pub(crate) const LAYOUT: TableOptions = TableOptions {
    block_bytes: 4 << 10,
    index_page_bytes: 4 << 10,
    compression: Compression::Lz4,
    bloom_fp_chance: 0.01,
    filter: FilterKind::Cells,
};
