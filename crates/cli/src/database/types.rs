//! Results of the driver as results of CQL.

use std::sync::Arc;

use anyhow::{Context as _, Result, anyhow, bail};
use carnet::{Bytes, DataType};
use carnet_cql::result::{ColumnSpec, Response, RowSet, Rows};
use carnet_cql::{CqlError, CqlErrorKind};
use carnet_data::{FieldKeys, TypeReference, UserType};
use scylla::deserialize::row::ColumnIterator;
use scylla::errors::{DbError, ExecutionError, RequestAttemptError};
use scylla::frame::response::result::{CollectionType, ColumnType};
use scylla::response::query_result::{ColumnSpecs, QueryResult};

/// Returns the response of a result. The driver does not tell which schema change it was.
pub(super) fn response(result: QueryResult, state: Option<Bytes>) -> Result<Response> {
    if !result.is_rows() {
        return Ok(Response::Void);
    }
    let result = result.into_rows_result().context("cannot read the server's answer")?;
    let columns = columns(result.column_specs())?;
    let mut rows = RowSet::default();
    for row in result.rows::<ColumnIterator<'_, '_>>()? {
        let values: Vec<Option<Bytes>> = row?
            .map(|column| Ok(column?.slice.map(|slice| slice.to_bytes())))
            .collect::<Result<_>>()?;
        rows.push(values.iter().map(Option::as_deref));
    }
    Ok(Response::Rows(Rows { columns: columns.into(), rows, paging_state: state }))
}

/// Returns the columns of a result.
pub(super) fn columns(specs: ColumnSpecs<'_, '_>) -> Result<Vec<ColumnSpec>> {
    let column = |spec: &scylla::frame::response::result::ColumnSpec<'_>| {
        let data_type = data_type(spec.typ())
            .with_context(|| format!("column {} cannot be shown", spec.name()))?;
        let table = spec.table_spec();
        Ok(ColumnSpec::new(table.ks_name(), table.table_name(), spec.name(), data_type))
    };
    specs.iter().map(column).collect()
}

fn data_type(column: &ColumnType<'_>) -> Result<DataType> {
    let unknown = || anyhow!("type {column:?} is not supported");
    Ok(match column {
        ColumnType::Native(native) => {
            format!("{native:?}").to_lowercase().parse().map_err(|_| unknown())?
        }
        ColumnType::Collection { typ: CollectionType::List(of), .. } => {
            DataType::list(data_type(of)?)
        }
        ColumnType::Collection { typ: CollectionType::Set(of), .. } => {
            DataType::set(data_type(of)?)
        }
        ColumnType::Collection { typ: CollectionType::Map(key, value), .. } => {
            DataType::map(data_type(key)?, data_type(value)?)
        }
        ColumnType::Vector { typ, dimensions } => DataType::vector(data_type(typ)?, *dimensions),
        ColumnType::Tuple(of) => {
            DataType::tuple(of.iter().map(data_type).collect::<Result<Vec<_>>>()?)
        }
        ColumnType::UserDefinedType { definition, .. } => {
            let field = |(name, of): &(std::borrow::Cow<'_, str>, ColumnType<'_>)| {
                Ok((name.clone().into_owned(), data_type(of)?))
            };
            DataType::Udt(Arc::new(UserType {
                keyspace: definition.keyspace.clone().into_owned(),
                name: definition.name.clone().into_owned(),
                fields: definition.field_types.iter().map(field).collect::<Result<_>>()?,
                reference: TypeReference::default(),
                keys: FieldKeys::Open,
            }))
        }
        _ => bail!(unknown()),
    })
}

/// Returns `true` if an error says that the connection is lost.
pub(super) const fn is_of_connection(error: &ExecutionError) -> bool {
    matches!(
        error,
        ExecutionError::ConnectionPoolError(_)
            | ExecutionError::LastAttemptError(RequestAttemptError::BrokenConnectionError(_))
    )
}

/// Returns an error of the driver; the server's errors become errors of CQL.
pub(super) fn error(error: &ExecutionError) -> anyhow::Error {
    let ExecutionError::LastAttemptError(RequestAttemptError::DbError(kind, message)) = error
    else {
        return anyhow!("{error}");
    };
    let kind = match kind {
        // The position is in the message.
        DbError::SyntaxError => CqlErrorKind::Syntax { line: 1, column: 1 },
        DbError::Invalid => CqlErrorKind::Invalid,
        DbError::Unauthorized => CqlErrorKind::Unauthorized,
        DbError::ConfigError => CqlErrorKind::Config,
        DbError::ProtocolError => CqlErrorKind::Protocol,
        DbError::AlreadyExists { keyspace, table } => CqlErrorKind::AlreadyExists {
            keyspace: keyspace.clone(),
            table: Some(table.clone()).filter(|table| !table.is_empty()),
        },
        _ => CqlErrorKind::Unavailable,
    };
    CqlError::new(kind, message.clone()).into()
}
