//! Options of tables and views.

use carnet::catalog::TableSchema;

use crate::ast::Options;
use crate::cql_error::{CqlError, CqlErrorKind};
use crate::system::{self, OptionError, TableOptions};

/// Sets options of a table, and checks that all its options fit together.
pub(super) fn set_table_options(
    schema: &mut TableSchema,
    options: &Options,
) -> Result<(), CqlError> {
    for (name, value) in options {
        let name = name.as_str();
        let text = system::check_option(name, value).map_err(refuse_option)?;
        schema.options.insert(name.to_owned(), text);
    }
    if schema.has_counters() && system::default_time_to_live(schema) != 0 {
        return Err(CqlError::config("Cannot set default_time_to_live on a table with counters"));
    }
    TableOptions::read(&schema.options).check().map_err(refuse_option)
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
