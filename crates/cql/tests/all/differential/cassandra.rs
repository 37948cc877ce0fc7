//! A client of Cassandra that returns the bytes of values.

use std::error::Error;
use std::num::NonZeroUsize;

use carnet::{Bytes, DataType};
use carnet_data::UserType;
use scylla::client::PoolSize;
use scylla::client::session::Session;
use scylla::client::session_builder::SessionBuilder;
use scylla::cluster::metadata::{CollectionType, ColumnType};
use scylla::deserialize::row::ColumnIterator;
use scylla::errors::{DbError, ExecutionError, RequestAttemptError};
use scylla::response::query_result::QueryResult;
use tokio::runtime::Runtime;

use super::script;

pub(crate) struct Cassandra {
    runtime: Runtime,
    session: Session,
}

impl Cassandra {
    /// Connects to a node, and drops its keyspaces.
    pub(crate) fn connect(contact_point: &str) -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .unwrap();
        // `USE` is sent as a statement, to the only connection.
        let pool = PoolSize::PerHost(NonZeroUsize::MIN);
        let builder = SessionBuilder::new()
            .known_node(contact_point)
            .pool_size(pool)
            .refresh_metadata_on_auto_schema_agreement(false);
        let session = runtime.block_on(builder.build()).unwrap();
        let cassandra = Self { runtime, session };
        let keyspaces = cassandra.answer("SELECT keyspace_name FROM system_schema.keyspaces");
        for name in keyspaces.lines().skip(1).map(|name| name.trim_matches('\'')) {
            if !name.starts_with("system") {
                cassandra.answer(&format!("DROP KEYSPACE \"{name}\""));
            }
        }
        cassandra
    }

    /// Runs a statement.
    pub(crate) fn answer(&self, statement: &str) -> String {
        self.try_answer(statement).unwrap_or_else(|| panic!("{statement}: an unknown type"))
    }

    /// Runs a statement; returns `None` if the result has a type that the client does not know.
    pub(crate) fn try_answer(&self, statement: &str) -> Option<String> {
        Some(match self.runtime.block_on(self.session.query_unpaged(statement, &[])) {
            Ok(result) => rows(result),
            Err(ExecutionError::LastAttemptError(RequestAttemptError::DbError(error, message))) => {
                script::failure(code(&error), &message)
            }
            Err(ExecutionError::LastAttemptError(RequestAttemptError::CqlResultParseError(_))) => {
                return None;
            }
            Err(error) => panic!("{statement}: {error}: {:?}", error.source()),
        })
    }
}

fn code(error: &DbError) -> i32 {
    error.code(&scylla::frame::protocol_features::ProtocolFeatures::default())
}

fn rows(result: QueryResult) -> String {
    if !result.is_rows() {
        return script::OK.to_owned();
    }
    let result = result.into_rows_result().unwrap();
    let columns: Vec<(String, DataType)> = result
        .column_specs()
        .iter()
        .map(|column| (column.name().to_owned(), data_type(column.typ())))
        .collect();
    let rows = result.rows::<ColumnIterator<'_, '_>>().unwrap();
    let cell = |bytes: &[u8]| Bytes::copy_from_slice(bytes);
    let rows: Vec<Vec<Option<Bytes>>> = rows
        .map(|row| row.unwrap().map(|c| c.unwrap().slice.map(|c| cell(c.as_slice()))).collect())
        .collect();
    script::rows(&columns, &rows)
}

fn data_type(column: &ColumnType<'_>) -> DataType {
    match column {
        ColumnType::Native(native) => {
            let name = format!("{native:?}").to_lowercase();
            name.parse().unwrap_or_else(|_| panic!("the type {native:?}"))
        }
        ColumnType::Collection { typ, .. } => match typ {
            CollectionType::List(of) => DataType::list(data_type(of)),
            CollectionType::Set(of) => DataType::set(data_type(of)),
            CollectionType::Map(key, value) => DataType::map(data_type(key), data_type(value)),
            other => panic!("the collection {other:?}"),
        },
        ColumnType::Vector { typ, dimensions } => DataType::vector(data_type(typ), *dimensions),
        ColumnType::Tuple(of) => DataType::tuple(of.iter().map(data_type)),
        ColumnType::UserDefinedType { definition, .. } => {
            let fields = definition.field_types.iter();
            DataType::Udt(
                UserType {
                    keyspace: definition.keyspace.clone().into(),
                    name: definition.name.clone().into(),
                    fields: fields
                        .map(|(name, of)| (name.clone().into_owned(), data_type(of)))
                        .collect(),
                    reference: carnet_data::TypeReference::default(),
                    keys: carnet_data::FieldKeys::Open,
                }
                .into(),
            )
        }
        other => panic!("the type {other:?}"),
    }
}
