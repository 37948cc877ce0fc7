//! Rust structs that map to rows.

use carnet_base::{Error, Result};
use carnet_data::{DataType, RowColumns, RowWriter, Value};

use super::scalar::{Scalar, stored};

/// A struct whose fields are the non-key columns of a row. Implemented by
/// [`record!`](crate::record).
pub trait Record: Sized + Send + 'static {
    /// Names and types of the columns.
    const COLUMNS: &'static [(&'static str, DataType)];

    /// Returns a value for each column, `None` for null.
    fn to_columns(&self) -> Vec<Option<Value>>;

    /// Writes a value or null for each column, in column order.
    fn put_columns(&self, row: &mut RowWriter<'_>) {
        for value in self.to_columns() {
            match value {
                Some(value) => row.value(|out| value.serialize_into(out)),
                None => row.null(),
            }
        }
    }

    /// Converts column values to the struct.
    ///
    /// # Errors
    ///
    /// `Invalid` if a column that must not be null is null, or a value has the wrong type.
    fn from_columns(columns: Vec<Option<Value>>) -> Result<Self>;

    /// Decodes a value or null for each column, in column order.
    ///
    /// # Errors
    ///
    /// Same as [`Record::from_columns`]; `Corrupted` if a stored value does not decode.
    fn take_columns(row: &mut RowColumns<'_>) -> Result<Self> {
        let value = |(_, data_type): &(&str, DataType)| {
            row.take()?.map(|bytes| stored(data_type, bytes)).transpose()
        };
        Self::from_columns(Self::COLUMNS.iter().map(value).collect::<Result<_>>()?)
    }
}

/// A field of a record: a scalar, or an `Option` of a scalar for a nullable column.
pub trait Field: Sized + Send {
    /// CQL type of the column.
    const TYPE: DataType;

    /// Returns the column's value, `None` for null.
    fn to_column(&self) -> Option<Value>;

    /// Writes the column's value, or null.
    fn put_column(&self, row: &mut RowWriter<'_>);

    /// Converts the value of the column `name`.
    ///
    /// # Errors
    ///
    /// Same as [`Record::from_columns`].
    fn from_column(name: &str, value: Option<Value>) -> Result<Self>;

    /// Decodes the value of the column `name`, in Cassandra's serialization.
    ///
    /// # Errors
    ///
    /// Same as [`Record::take_columns`].
    fn take_column(name: &str, value: Option<&[u8]>) -> Result<Self>;
}

impl<T: Scalar> Field for T {
    const TYPE: DataType = T::TYPE;

    fn to_column(&self) -> Option<Value> {
        Some(self.to_value())
    }

    fn put_column(&self, row: &mut RowWriter<'_>) {
        row.value(|out| self.put(out));
    }

    fn from_column(name: &str, value: Option<Value>) -> Result<Self> {
        T::from_value(value.ok_or_else(|| is_null(name))?)
    }

    fn take_column(name: &str, value: Option<&[u8]>) -> Result<Self> {
        T::take(value.ok_or_else(|| is_null(name))?)
    }
}

impl<T: Scalar> Field for Option<T> {
    const TYPE: DataType = T::TYPE;

    fn to_column(&self) -> Option<Value> {
        self.as_ref().map(T::to_value)
    }

    fn put_column(&self, row: &mut RowWriter<'_>) {
        match self {
            Some(value) => row.value(|out| value.put(out)),
            None => row.null(),
        }
    }

    fn from_column(_: &str, value: Option<Value>) -> Result<Self> {
        value.map(T::from_value).transpose()
    }

    fn take_column(_: &str, value: Option<&[u8]>) -> Result<Self> {
        value.map(T::take).transpose()
    }
}

fn is_null(column: &str) -> Error {
    Error::invalid(format!("column {column} is null; make the field an Option"))
}
