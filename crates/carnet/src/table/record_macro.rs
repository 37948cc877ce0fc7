//! The macro that implements [`Record`](crate::Record).

/// Declares a struct whose fields are the non-key columns of a row.
///
/// ```
/// carnet::record! {
///     /// A measurement of a sensor.
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

            fn put_columns(&self, row: &mut $crate::table::RowWriter<'_>) {
                $($crate::table::Field::put_column(&self.$field, row);)*
            }

            fn take_columns(row: &mut $crate::table::RowColumns<'_>) -> $crate::Result<Self> {
                ::std::result::Result::Ok(Self {
                    $($field: $crate::table::Field::take_column(
                        stringify!($field),
                        row.take()?,
                    )?),*
                })
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
