//! A table's shape: its columns, as `system_schema` of either side describes them. Pure.

use std::fmt;

use anyhow::{Context, Result, bail};
use carnet::DataType;
use carnet_data::Order;

use super::row::{Field, Row, literal, text};
use super::table_name::TableName;
use super::user_types::UserTypes;
use crate::copy::spelled;

/// The columns of a table: partition key, clustering key, static and regular ones.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Shape {
    pub(super) columns: Vec<Column>,
}

/// Column of a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Column {
    pub(super) name: String,
    pub(super) kind: Kind,
    /// CQL name of its type, as the schema spells it.
    pub(super) type_name: String,
    /// The same name with other names in place of user-defined types.
    resolved: String,
    /// Whether it is a user-defined type that is not frozen.
    is_user_type: bool,
}

/// Role of a column in a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Partition,
    Clustering(Order),
    Static,
    Regular,
}

impl Kind {
    /// Returns the rank of the kind in the order of columns.
    const fn rank(self) -> u8 {
        match self {
            Self::Partition => 0,
            Self::Clustering(_) => 1,
            Self::Static => 2,
            Self::Regular => 3,
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Partition => "part of the partition key",
            Self::Clustering(Order::Asc) => "part of the clustering key, ascending",
            Self::Clustering(Order::Desc) => "part of the clustering key, descending",
            Self::Static => "static",
            Self::Regular => "regular",
        })
    }
}

impl Column {
    /// Returns its type if an import supports it.
    pub(super) fn data_type(&self) -> Option<DataType> {
        self.resolved.parse().ok()
    }

    /// Returns `true` for a collection or user-defined type that is not frozen.
    pub(super) fn is_multi_cell(&self) -> bool {
        let is_collection = |data_type: DataType| {
            matches!(data_type, DataType::Map(_) | DataType::List(_) | DataType::Set(_))
        };
        let is_collection = self.data_type().is_some_and(is_collection);
        self.is_user_type || (is_collection && !self.type_name.starts_with("frozen<"))
    }

    /// Returns the reason if Carnet does not support the column.
    fn refusal(&self) -> Option<String> {
        let Self { name, type_name, kind, .. } = self;
        match (self.data_type(), kind) {
            (None, _) => Some(format!("column {name} of type {type_name}")),
            (Some(known), Kind::Clustering(_)) if !known.is_key_type() => {
                Some(format!("column {name} of type {type_name} in a clustering key"))
            }
            _ => None,
        }
    }
}

/// Returns the query whose rows [`Shape::read`] decodes.
pub(super) fn columns_query(table: &TableName) -> String {
    format!(
        "SELECT column_name, kind, position, clustering_order, type FROM system_schema.columns \
         WHERE keyspace_name = {} AND table_name = {}",
        literal(&table.keyspace),
        literal(&table.table)
    )
}

/// Returns the query that finds whether a cluster has column masks, as of Cassandra 5.0.
pub(super) const HAS_MASKS_QUERY: &str = "SELECT table_name FROM system_schema.tables \
     WHERE keyspace_name = 'system_schema' AND table_name = 'column_masks'";

/// Returns the query for the columns that are masked for roles without permission.
pub(super) fn masks_query(table: &TableName) -> String {
    format!(
        "SELECT column_name FROM system_schema.column_masks \
         WHERE keyspace_name = {} AND table_name = {}",
        literal(&table.keyspace),
        literal(&table.table)
    )
}

impl Shape {
    /// Reads rows of `system_schema.columns`; `None` where there is no such table.
    ///
    /// # Errors
    ///
    /// Rows of another form.
    pub(super) fn read(rows: &[Row], types: &UserTypes) -> Result<Option<Self>> {
        let columns = rows.iter().map(|row| column(row, types));
        let mut columns = columns.collect::<Result<Vec<_>>>()?;
        columns.sort_by(|(a, place), (b, other)| {
            (a.kind.rank(), place, &a.name).cmp(&(b.kind.rank(), other, &b.name))
        });
        let columns: Vec<Column> = columns.into_iter().map(|(column, _)| column).collect();
        Ok((!columns.is_empty()).then_some(Self { columns }))
    }

    /// Refuses types that Carnet lacks, naming every such column.
    ///
    /// # Errors
    ///
    /// A column that Carnet does not support.
    pub(super) fn check(&self) -> Result<()> {
        let refusals: Vec<String> = self.columns.iter().filter_map(Column::refusal).collect();
        if refusals.is_empty() {
            return Ok(());
        }
        bail!("not supported yet: {}; nothing was copied", refusals.join(", "))
    }

    /// Returns the first difference from the shape of an existing table, if there is one.
    pub(super) fn difference(&self, there: &Self) -> Option<String> {
        for column in &self.columns {
            let name = &column.name;
            let Some(other) = there.columns.iter().find(|other| other.name == *name) else {
                return Some(format!("column {name} is missing there"));
            };
            let has_user_types = column.resolved != column.type_name;
            let is_other_type = column.data_type() != other.data_type()
                || (has_user_types && column.type_name != other.type_name);
            if is_other_type || column.is_multi_cell() != other.is_multi_cell() {
                let (here, there) = (&column.type_name, &other.type_name);
                return Some(format!("column {name} is of type {there} there, and {here} here"));
            }
            if column.kind != other.kind {
                let (here, there) = (column.kind, other.kind);
                return Some(format!("column {name} is {there} there, and {here} here"));
            }
        }
        let extra = |other: &&Column| self.columns.iter().all(|column| column.name != other.name);
        if let Some(extra) = there.columns.iter().find(extra) {
            return Some(format!("column {} is there, and not here", extra.name));
        }
        let mut places = self.columns.iter().zip(&there.columns);
        let moved = places.find(|(here, there)| here.name != there.name);
        moved.map(|(here, _)| format!("column {} has another place in the key there", here.name))
    }

    /// Returns the statement that creates a table of this shape.
    pub(super) fn create(&self, table: &TableName) -> String {
        let columns = self.columns.iter().map(|column| {
            let is_static = if column.kind == Kind::Static { " static" } else { "" };
            format!("{} {}{is_static}", spelled(&column.name), column.type_name)
        });
        let columns: Vec<String> = columns.collect();
        let partition = self.names(|kind| kind == Kind::Partition).join(", ");
        let clustering = self.names(|kind| matches!(kind, Kind::Clustering(_)));
        let key = [vec![format!("({partition})")], clustering.clone()].concat().join(", ");
        let order = if clustering.is_empty() {
            String::new()
        } else {
            format!(" WITH CLUSTERING ORDER BY ({})", self.orders().join(", "))
        };
        format!("CREATE TABLE {table} ({}, PRIMARY KEY ({key})){order}", columns.join(", "))
    }

    fn orders(&self) -> Vec<String> {
        let order = |column: &Column| match column.kind {
            Kind::Clustering(Order::Asc) => Some(format!("{} ASC", spelled(&column.name))),
            Kind::Clustering(Order::Desc) => Some(format!("{} DESC", spelled(&column.name))),
            _ => None,
        };
        self.columns.iter().filter_map(order).collect()
    }

    fn names(&self, wanted: impl Fn(Kind) -> bool) -> Vec<String> {
        let wanted = self.columns.iter().filter(|column| wanted(column.kind));
        wanted.map(|column| spelled(&column.name)).collect()
    }

    /// Returns the stored names of the partition key's columns.
    pub(super) fn partition_key(&self) -> Vec<String> {
        let key = self.columns.iter().filter(|column| column.kind == Kind::Partition);
        key.map(|column| column.name.clone()).collect()
    }

    /// Returns the number of columns of some kinds.
    pub(super) fn count(&self, wanted: impl Fn(Kind) -> bool) -> usize {
        self.columns.iter().filter(|column| wanted(column.kind)).count()
    }

    /// Returns the columns whose times a source can tell: those outside of the key that are no counters.
    pub(super) fn timed(&self, with_elements: bool) -> Vec<usize> {
        let is_timed = |column: &Column| {
            matches!(column.kind, Kind::Static | Kind::Regular)
                && column.data_type() != Some(DataType::Counter)
                && (with_elements || !column.is_multi_cell())
        };
        (0..self.columns.len()).filter(|at| is_timed(&self.columns[*at])).collect()
    }

    /// Returns `true` if a column has elements with times of their own.
    pub(super) fn has_multi_cell(&self) -> bool {
        self.columns.iter().any(Column::is_multi_cell)
    }

    /// Returns a column and its value, for display.
    pub(super) fn shown(&self, at: usize, value: &Field) -> String {
        let column = &self.columns[at];
        let value = match value {
            Field::Value(bytes) => {
                let value = column.data_type().and_then(|known| known.deserialize(bytes).ok());
                value.map_or_else(|| format!("{bytes:02x?}"), |value| value.to_literal())
            }
            Field::Null | Field::Unset => "null".to_owned(),
        };
        format!("{} = {value}", column.name)
    }
}

/// Decodes a row of `system_schema.columns`; returns the column and its position among its kind.
fn column(row: &Row, types: &UserTypes) -> Result<(Column, i32)> {
    let [name, kind, position, order, type_name] = &row[..] else {
        bail!("a column of the schema has {} parts", row.len());
    };
    let name = text(name)?;
    let position = position.as_deref().and_then(|bytes| bytes.try_into().ok());
    let position =
        i32::from_be_bytes(position.with_context(|| format!("column {name} has no position"))?);
    let kind = match (&*text(kind)?, &*text(order)?) {
        ("partition_key", _) => Kind::Partition,
        ("clustering", "desc") => Kind::Clustering(Order::Desc),
        ("clustering", _) => Kind::Clustering(Order::Asc),
        ("static", _) => Kind::Static,
        ("regular", _) => Kind::Regular,
        (other, _) => bail!("column {name} has the unknown kind {other:?}"),
    };
    let type_name = text(type_name)?;
    let (resolved, is_user_type) = (types.resolve(&type_name), types.is_one(&type_name));
    Ok((Column { name, kind, type_name, resolved, is_user_type }, position))
}

#[cfg(test)]
mod tests {
    use carnet_base::{Rng, SeededRng};

    use carnet::Bytes;

    use super::*;

    fn bytes(text: &str) -> Option<Bytes> {
        Some(Bytes::copy_from_slice(text.as_bytes()))
    }

    /// Name, kind, position, order and type of a column.
    type Listed = (&'static str, &'static str, i32, &'static str, &'static str);

    fn shape(columns: &[Listed]) -> Shape {
        let rows: Vec<Row> = columns
            .iter()
            .map(|(name, kind, position, order, type_name)| {
                let position = Some(Bytes::copy_from_slice(&position.to_be_bytes()));
                vec![bytes(name), bytes(kind), position, bytes(order), bytes(type_name)]
            })
            .collect();
        Shape::read(&rows, &UserTypes::default()).unwrap().unwrap()
    }

    /// In the order of a schema: by name.
    const READINGS: [Listed; 6] = [
        ("Level", "regular", -1, "none", "double"),
        ("at", "clustering", 0, "desc", "timestamp"),
        ("day", "partition_key", 1, "none", "date"),
        ("kind", "clustering", 1, "asc", "text"),
        ("place", "static", -1, "none", "varchar"),
        ("sensor", "partition_key", 0, "none", "int"),
    ];

    fn readings() -> TableName {
        TableName { keyspace: "Lab".into(), table: "readings".into() }
    }

    #[test]
    fn table_is_created_with_keys_and_orders() {
        let shape = shape(&READINGS);
        assert_eq!(
            shape.create(&readings()),
            "CREATE TABLE \"Lab\".readings (sensor int, day date, at timestamp, kind text, \
             place varchar static, \"Level\" double, PRIMARY KEY ((sensor, day), at, kind)) \
             WITH CLUSTERING ORDER BY (at DESC, kind ASC)"
        );
        assert_eq!(shape.partition_key(), ["sensor", "day"]);
    }

    #[test]
    fn missing_table_has_no_shape() {
        assert_eq!(Shape::read(&[], &UserTypes::default()).unwrap(), None);
        let odd = vec![bytes("a"), bytes("virtual"), Some(Bytes::from_static(&[0; 4]))];
        assert!(
            Shape::read(
                &[[odd, vec![bytes("none"), bytes("int")]].concat()],
                &UserTypes::default()
            )
            .is_err()
        );
        assert!(Shape::read(&[vec![bytes("a")]], &UserTypes::default()).is_err());
    }

    #[test]
    fn any_schema_is_read_or_refused() {
        let mut rng = SeededRng::new(11);
        let mut below = |count: u64| usize::try_from(rng.below(count)).unwrap();
        let words = ["a", "b", "partition_key", "clustering", "regular", "desc", "int", "\u{e9}"];
        for _ in 0..5_000 {
            let mut rows = Vec::new();
            for _ in 0..below(4) {
                let mut row: Row = words.iter().take(5).map(|_| bytes(words[below(8)])).collect();
                row[2] = Some(Bytes::from(vec![0; 4]));
                // Some rows get another number of parts, or an invalid part.
                match below(8) {
                    0 => row.truncate(below(6)),
                    1 => row[below(5)] = None,
                    2 => row[below(5)] = Some(Bytes::from_static(&[0xff, 0])),
                    _ => {}
                }
                rows.push(row);
            }
            if let Ok(Some(shape)) = Shape::read(&rows, &UserTypes::default()) {
                assert_eq!(shape.columns.len(), rows.len());
            }
        }
    }

    #[test]
    fn unsupported_columns_are_all_named() {
        let mut columns = READINGS.to_vec();
        assert!(shape(&columns).check().is_ok());
        for type_name in [
            "duration",
            "frozen<set<text>>",
            "map<text, frozen<list<int>>>",
            "frozen<tuple<int, text>>",
            "vector<float, 3>",
        ] {
            columns[0].4 = type_name;
            assert!(shape(&columns).check().is_ok(), "{type_name}");
        }
        for type_name in ["set<frozen<address>>", "frozen<address>", "empty"] {
            columns[0].4 = type_name;
            let error = shape(&columns).check().unwrap_err().to_string();
            assert!(error.contains(&format!("column Level of type {type_name}")), "{error}");
        }
        columns[1].4 = "duration";
        let error = shape(&columns).check().unwrap_err().to_string();
        assert!(error.contains("column at of type duration in a clustering key"), "{error}");
        assert!(error.contains("column Level of type empty"), "{error}");
        // Outside the clustering key the type is supported.
        columns[0].4 = "duration";
        columns[1].4 = "timestamp";
        assert!(shape(&columns).check().is_ok());
    }

    #[test]
    fn existing_table_must_have_the_same_shape() {
        let here = shape(&READINGS);
        assert_eq!(here.difference(&here), None);
        let differs = |change: &dyn Fn(&mut Vec<Listed>)| {
            let mut columns = READINGS.to_vec();
            change(&mut columns);
            here.difference(&shape(&columns)).unwrap_or_default()
        };
        // An alias of a type is no difference.
        assert_eq!(differs(&|columns| columns[4].4 = "text"), "");
        assert!(differs(&|columns| columns[0].4 = "float").contains("Level is of type float"));
        let frozen = shape(&[("s", "regular", -1, "none", "frozen<set<text>>")]);
        let other = shape(&[("s", "regular", -1, "none", "set<text>")]);
        assert_eq!(frozen.difference(&frozen), None);
        assert!(frozen.difference(&other).is_some_and(|found| found.contains("of type set<text>")));
        assert!(
            differs(&|columns| columns[1].3 = "asc")
                .contains("at is part of the clustering key, asc")
        );
        assert!(differs(&|columns| columns[4].1 = "regular").contains("place is regular"));
        assert!(
            differs(&|columns| columns.retain(|column| column.0 != "Level"))
                .contains("Level is missing")
        );
        let more = ("zone", "regular", -1, "none", "int");
        assert!(differs(&|columns| columns.push(more)).contains("zone is there"));
        let swapped = differs(&|columns| {
            columns[1].2 = 1;
            columns[3].2 = 0;
        });
        assert!(swapped.contains("at has another place"), "{swapped}");
        let swapped = differs(&|columns| {
            columns[2].2 = 0;
            columns[5].2 = 1;
        });
        assert!(swapped.contains("sensor has another place"), "{swapped}");
    }
}
