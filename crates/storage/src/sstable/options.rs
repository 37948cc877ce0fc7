//! How the cells of one table are laid out in files.

/// How blocks are compressed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Compression {
    /// Not at all.
    None,
    /// LZ4: cheap both ways.
    #[default]
    Lz4,
    /// Zstandard at a level, 1 to 22: smaller and slower; reading does not depend on the level.
    Zstd(u8),
}

/// What the filter of an index page remembers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FilterKind {
    /// Partitions: small, and all that a table of wide partitions needs.
    #[default]
    Partitions,
    /// Cells: for tables whose partitions are wide and whose point reads often find nothing.
    Cells,
}

/// The layout of the cells of one table. It takes effect in files that are written from then on.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TableOptions {
    /// A block is closed before it exceeds this many bytes, before compression. Smaller blocks
    /// make a point read from disk cheaper and the index larger. Clamped to 64 bytes and 1 MiB.
    /// Default: 4 KiB.
    pub block_bytes: usize,
    /// An index page is closed once it has about this many bytes. Clamped as `block_bytes` is.
    /// Default: 4 KiB.
    pub index_page_bytes: usize,
    /// Default: LZ4.
    pub compression: Compression,
    /// How often a filter says "perhaps" to what is not there; clamped to 10⁻⁶ and 0.5. Each
    /// factor of ten less costs 4.8 bits for each partition or cell. Default: 0.01.
    pub bloom_fp_chance: f64,
    /// Default: partitions.
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
    /// The longest that a block may be, unless a single entry is longer.
    pub const BLOCK_BYTES_MAX: usize = 1 << 20;
    const BLOCK_BYTES_MIN: usize = 64;

    /// Returns the options with every number within its limits.
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

/// How a read treats the cache.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReadOptions {
    /// The read takes what is in the cache, but leaves the cache as it was: nothing is inserted
    /// and nothing becomes more recent.
    pub bypass_cache: bool,
}
