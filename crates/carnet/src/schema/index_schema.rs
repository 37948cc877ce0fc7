//! Schemas of secondary indexes.

use std::collections::BTreeMap;

use carnet_base::{ColumnId, TableId};
use carnet_data::{DataType, Folding};
use serde::{Deserialize, Serialize};

use super::build_failure::BuildFailure;

/// Schema of a secondary index. See [`crate::index`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IndexSchema {
    /// Name of the index, unique in its keyspace.
    pub name: String,
    /// Table id of the index's entries, never reused.
    pub id: TableId,
    /// Column whose values are indexed.
    pub column: ColumnId,
    /// Indexed part of the column.
    pub part: IndexedPart,
    /// Class of `USING` as given; `None` for a plain `CREATE INDEX`.
    pub class: Option<String>,
    /// Options of `CREATE INDEX`, as text.
    pub options: BTreeMap<String, String>,
    /// Number of token bits that divide the entries into partitions, 0 to [`INDEX_BITS_MAX`].
    pub bits: u8,
    /// Whether static parts of partitions have entries as well, in an index on a column of the
    /// partition key. Indexes of earlier versions lack them.
    pub has_static_entries: bool,
    /// Whether the rows that existed before the index have their entries.
    pub is_built: bool,
    /// Why it cannot be built, if a build has failed.
    pub failure: Option<BuildFailure>,
}

impl IndexSchema {
    /// Returns `true` if a builder has to go on: it is neither built, nor has failed.
    #[must_use]
    pub const fn is_building(&self) -> bool {
        !self.is_built && self.failure.is_none()
    }

    /// Returns the steps by which its options fold the texts of entries and of equality conditions.
    #[must_use]
    pub fn folding(&self) -> Folding {
        let has = |option: &str, value: &str| {
            self.options.get(option).is_some_and(|given| given.eq_ignore_ascii_case(value))
        };
        Folding {
            lower_case: has(CASE_SENSITIVE, "false"),
            normalize: has(NORMALIZE, "true"),
            ascii: has(ASCII, "true"),
        }
    }
}

/// Option of an index by which it tells upper and lower case apart, unless it is `false`.
pub const CASE_SENSITIVE: &str = "case_sensitive";
/// Option of an index by which it compares texts in the composed form of Unicode, if it is `true`.
pub const NORMALIZE: &str = "normalize";
/// Option of an index by which it compares texts as the ASCII that they resemble, if it is `true`.
pub const ASCII: &str = "ascii";

/// Maximum number of token bits that divide the entries of an index into partitions.
pub const INDEX_BITS_MAX: u8 = 8;

/// Part of a column that an index holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum IndexedPart {
    /// The whole value.
    Value,
    /// The keys of a map.
    Keys,
    /// The elements of a list or set, or the values of a map.
    Values,
    /// The pairs of keys and values of a map.
    Entries,
}

impl IndexedPart {
    /// Returns the types of an entry's values; `None` if columns of the type have no such part.
    #[must_use]
    pub fn types(self, data_type: &DataType) -> Option<Vec<DataType>> {
        match (self, data_type) {
            (Self::Value, whole) => Some(vec![whole.clone()]),
            (Self::Keys, DataType::Map(pair)) => Some(vec![pair.0.clone()]),
            (Self::Values, DataType::Map(pair)) => Some(vec![pair.1.clone()]),
            (Self::Values, DataType::List(element) | DataType::Set(element)) => {
                Some(vec![(**element).clone()])
            }
            (Self::Entries, DataType::Map(pair)) => Some(vec![pair.0.clone(), pair.1.clone()]),
            _ => None,
        }
    }
}

/// Stored form of an [`IndexSchema`].
#[derive(Serialize, Deserialize)]
pub(crate) struct StoredIndex {
    name: String,
    id: u32,
    column: u16,
    part: IndexedPart,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    class: Option<String>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    options: BTreeMap<String, String>,
    #[serde(default, skip_serializing_if = "is_zero")]
    bits: u8,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    has_static_entries: bool,
    is_built: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    failure: Option<BuildFailure>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "the signature that serde calls")]
const fn is_zero(bits: &u8) -> bool {
    *bits == 0
}

impl From<&IndexSchema> for StoredIndex {
    fn from(index: &IndexSchema) -> Self {
        Self {
            name: index.name.clone(),
            id: index.id.0,
            column: index.column.0,
            part: index.part,
            class: index.class.clone(),
            options: index.options.clone(),
            bits: index.bits,
            has_static_entries: index.has_static_entries,
            is_built: index.is_built,
            failure: index.failure.clone(),
        }
    }
}

impl From<StoredIndex> for IndexSchema {
    fn from(stored: StoredIndex) -> Self {
        Self {
            name: stored.name,
            id: TableId(stored.id),
            column: ColumnId(stored.column),
            part: stored.part,
            class: stored.class,
            options: stored.options,
            bits: stored.bits.min(INDEX_BITS_MAX),
            has_static_entries: stored.has_static_entries,
            is_built: stored.is_built,
            failure: stored.failure,
        }
    }
}
