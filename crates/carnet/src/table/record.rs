//! Rust structs that are rows.

use bytes::BytesMut;
use carnet_base::{DataType, Error, Result, Value};

use super::scalar::Scalar;

/// A struct that is the columns of a row outside its key. Made by [`record!`](crate::record).
pub trait Record: Sized + Send + 'static {
    /// Names and types of the columns.
    const COLUMNS: &'static [(&'static str, DataType)];

    /// Returns a value for each column, `None` for null.
    fn to_columns(&self) -> Vec<Option<Value>>;

    /// Appends each column's value as Cassandra serializes it; returns where each ends, `None` for
    /// null.
    fn put_columns(&self, out: &mut BytesMut) -> Vec<Option<usize>>;

    /// Takes a value for each column.
    ///
    /// # Errors
    ///
    /// `Invalid` when a column that cannot be null is, or a value is of another type.
    fn from_columns(columns: Vec<Option<Value>>) -> Result<Self>;
}

/// A field of a record: a scalar, or an `Option` of one for a column that may be null.
pub trait Field: Sized + Send {
    /// The column's type.
    const TYPE: DataType;

    /// Returns the column's value.
    fn to_column(&self) -> Option<Value>;

    /// Appends the column's value as Cassandra serializes it; returns where it ends, `None` for
    /// null.
    fn put_column(&self, out: &mut BytesMut) -> Option<usize>;

    /// Takes the value of the column of that name.
    ///
    /// # Errors
    ///
    /// As [`Record::from_columns`].
    fn from_column(name: &str, value: Option<Value>) -> Result<Self>;
}

impl<T: Scalar> Field for T {
    const TYPE: DataType = T::TYPE;

    fn to_column(&self) -> Option<Value> {
        Some(self.to_value())
    }

    fn put_column(&self, out: &mut BytesMut) -> Option<usize> {
        self.put(out);
        Some(out.len())
    }

    fn from_column(name: &str, value: Option<Value>) -> Result<Self> {
        let value = value.ok_or_else(|| {
            Error::invalid(format!("column {name} is null; make the field an Option"))
        })?;
        T::from_value(value)
    }
}

impl<T: Scalar> Field for Option<T> {
    const TYPE: DataType = T::TYPE;

    fn to_column(&self) -> Option<Value> {
        self.as_ref().map(T::to_value)
    }

    fn put_column(&self, out: &mut BytesMut) -> Option<usize> {
        self.as_ref().map(|value| {
            value.put(out);
            out.len()
        })
    }

    fn from_column(_: &str, value: Option<Value>) -> Result<Self> {
        value.map(T::from_value).transpose()
    }
}

/// Declares a struct whose fields are the columns of a row outside its key.
///
/// ```
/// carnet::record! {
///     /// What a sensor said.
///     #[derive(Debug, PartialEq)]
///     pub struct Reading {
///         pub celsius: f64,
///         pub note: Option<String>,
///     }
/// }
/// let reading = Reading { celsius: 21.5, note: None };
/// assert_eq!(carnet::Record::to_columns(&reading).len(), 2);
/// ```
#[macro_export]
macro_rules! record {
    (
        $(#[$meta:meta])*
        $vis:vis struct $name:ident {
            $($(#[$field_meta:meta])* $field_vis:vis $field:ident: $type:ty),* $(,)?
        }
    ) => {
        $(#[$meta])*
        $vis struct $name {
            $($(#[$field_meta])* $field_vis $field: $type),*
        }

        impl $crate::Record for $name {
            const COLUMNS: &'static [(&'static str, $crate::DataType)] =
                &[$((stringify!($field), <$type as $crate::table::Field>::TYPE)),*];

            fn to_columns(&self) -> ::std::vec::Vec<::std::option::Option<$crate::Value>> {
                ::std::vec![$($crate::table::Field::to_column(&self.$field)),*]
            }

            fn put_columns(
                &self,
                out: &mut $crate::BytesMut,
            ) -> ::std::vec::Vec<::std::option::Option<usize>> {
                ::std::vec![$($crate::table::Field::put_column(&self.$field, out)),*]
            }

            fn from_columns(
                columns: ::std::vec::Vec<::std::option::Option<$crate::Value>>,
            ) -> $crate::Result<Self> {
                let mut columns = columns.into_iter();
                ::std::result::Result::Ok(Self {
                    $($field: $crate::table::Field::from_column(
                        stringify!($field),
                        columns.next().flatten(),
                    )?),*
                })
            }
        }
    };
}
