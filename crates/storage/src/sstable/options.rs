//! Layout options of a table's cells in files.

/// Compression of blocks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Compression {
    /// Blocks are not compressed.
    None,
    /// LZ4: fast in both directions.
    #[default]
    Lz4,
    /// Zstandard at a level from 1 to 22: smaller and slower; decompression does not depend on the
    /// level.
    Zstd(u8),
}

/// Members of the filter of an index page.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FilterKind {
    /// Partitions: small, and sufficient for most tables.
    #[default]
    Partitions,
    /// Cells: for tables with wide partitions whose point reads often find nothing.
    Cells,
}

/// Layout options of the cells of one table. Changes affect only files written later.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TableOptions {
    /// Maximum size of a block before compression. Smaller blocks make point reads from disk
    /// cheaper and the index larger. Clamped to 64 bytes and 1 MiB. Default: 4 KiB.
    pub block_bytes: usize,
    /// Approximate size of an index page. Clamped like `block_bytes`. Default: 4 KiB.
    pub index_page_bytes: usize,
    /// Compression of blocks. Default: LZ4.
    pub compression: Compression,
    /// False-positive rate of filters, clamped to 10⁻⁶ and 0.5. A tenth of the rate costs 4.8 more
    /// bits for each partition or cell. Default: 0.01.
    pub bloom_fp_chance: f64,
    /// Members of filters. Default: partitions.
    pub filter: FilterKind,
}

impl Default for TableOptions {
    fn default() -> Self {
        Self {
            block_bytes: 4 << 10,
            index_page_bytes: 4 << 10,
            compression: Compression::default(),
            bloom_fp_chance: 0.01,
            filter: FilterKind::default(),
        }
    }
}

impl TableOptions {
    /// Maximum size of a block, unless a single entry is larger.
    pub const BLOCK_BYTES_MAX: usize = 1 << 20;
    const BLOCK_BYTES_MIN: usize = 64;

    /// Returns the options with every value within its limits.
    #[must_use]
    pub(super) fn clamped(self) -> Self {
        let bytes = |bytes: usize| bytes.clamp(Self::BLOCK_BYTES_MIN, Self::BLOCK_BYTES_MAX);
        Self {
            block_bytes: bytes(self.block_bytes),
            index_page_bytes: bytes(self.index_page_bytes),
            bloom_fp_chance: self.bloom_fp_chance.clamp(1e-6, 0.5),
            ..self
        }
    }
}

/// How a read uses the cache.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReadOptions {
    /// Reads cached blocks but leaves the cache unchanged: inserts nothing and marks nothing as
    /// recently used.
    pub bypass_cache: bool,
}
