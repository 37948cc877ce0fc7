//! Options of tables and views.

use carnet::Uuid;
use carnet::catalog::TableSchema;

use crate::ast::{Literal, OptionValue, Options};
use crate::cql_error::{CqlError, CqlErrorKind};
use crate::system::{self, Foreign, OptionError, TableOptions};

/// Sets options of a table, and checks that all its options fit together.
pub(super) fn set_table_options(
    schema: &mut TableSchema,
    options: &Options,
) -> Result<(), CqlError> {
    for (name, value) in options {
        let name = name.as_str();
        match system::of_table(name, value) {
            Some(Foreign::WithoutEffect) => continue,
            Some(Foreign::Refused) => {
                return Err(CqlError::unsupported(format!("the table option {name} = {value}")));
            }
            None => {}
        }
        let text = system::check_option(name, value).map_err(refuse_option)?;
        schema.options.insert(name.to_owned(), text);
    }
    if schema.has_counters() && system::default_time_to_live(schema) != 0 {
        return Err(CqlError::config("Cannot set default_time_to_live on a table with counters"));
    }
    TableOptions::read(&schema.options).check().map_err(refuse_option)
}

/// Takes the option `id` off the options of a new table.
///
/// # Errors
///
/// `Config` if it is no UUID.
pub(super) fn take_id(options: &mut Options) -> Result<Option<Uuid>, CqlError> {
    let Some(place) = options.iter().position(|(name, _)| name.as_str() == system::ID) else {
        return Ok(None);
    };
    match options.remove(place).1 {
        OptionValue::Literal(Literal::Uuid(id)) => Ok(Some(id)),
        OptionValue::Literal(Literal::String(text)) => {
            Uuid::try_parse(&text).map(Some).map_err(|_| CqlError::config("Invalid table id"))
        }
        _ => Err(CqlError::config("Invalid table id")),
    }
}

fn refuse_option(error: OptionError) -> CqlError {
    match error {
        // Names and types were checked by the parser, so the text is not available here.
        OptionError::Syntax(message) => {
            CqlError::new(CqlErrorKind::Syntax { line: 1, column: 1 }, message)
        }
        OptionError::Value(message) => CqlError::config(message),
        OptionError::Unsupported(what) => CqlError::unsupported(what),
    }
}
