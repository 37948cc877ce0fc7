//! Columns that were dropped from a table, which `system_schema.dropped_columns` lists.

use carnet_data::DataType;
use serde::{Deserialize, Serialize};

/// Maximum number of dropped columns that a table lists; the latest remain.
pub(crate) const DROPPED_MAX: usize = 1_000;
/// Maximum length of the names and types of the dropped columns that a table lists. The type of a
/// column of user-defined types is long: it has their fields.
const DROPPED_BYTES_MAX: usize = 2 << 20;

/// Removes the earliest dropped columns beyond the limits.
pub(crate) fn limit_dropped(dropped: &mut Vec<DroppedColumn>) {
    let (mut kept, mut bytes) = (0, 0);
    for column in dropped.iter().rev().take(DROPPED_MAX) {
        bytes += column.name.len() + column.type_name.len();
        if bytes > DROPPED_BYTES_MAX {
            break;
        }
        kept += 1;
    }
    dropped.drain(..dropped.len() - kept);
}

/// Column that was dropped from a table.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DroppedColumn {
    /// Name of the column.
    pub name: String,
    /// Type of the column in CQL, in which user-defined types are the tuples of their fields.
    #[serde(rename = "type")]
    pub type_name: String,
    /// Whether the column was static.
    pub is_static: bool,
    /// Wall time of the drop, in microseconds.
    pub dropped_micros: i64,
}

/// Returns the type with tuples in place of user-defined types, which may be dropped later.
pub(crate) fn without_user_types(data_type: &DataType) -> DataType {
    match data_type {
        DataType::Udt(user_type) => {
            let fields = user_type.fields.iter();
            DataType::tuple(fields.map(|(_, field)| without_user_types(field)))
        }
        DataType::Tuple(fields) => DataType::tuple(fields.iter().map(without_user_types)),
        DataType::List(element) => DataType::list(without_user_types(element)),
        DataType::Set(element) => DataType::set(without_user_types(element)),
        DataType::Map(pair) => {
            DataType::map(without_user_types(&pair.0), without_user_types(&pair.1))
        }
        DataType::Vector(vector) => DataType::vector(without_user_types(&vector.0), vector.1),
        scalar => scalar.clone(),
    }
}
