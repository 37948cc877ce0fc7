//! Rows as text: the columns' names, and the values as literals.

use std::fmt::Write as _;

use carnet::DataType;
use carnet_cql::result::Rows;

fn cell(data_type: &DataType, bytes: Option<&carnet::Bytes>) -> String {
    bytes.map_or_else(
        || "null".to_owned(),
        |bytes| data_type.deserialize_result(bytes).expect("a value of its type").to_literal(),
    )
}

/// Writes a result, one line per row.
pub(crate) fn table(rows: &Rows) -> String {
    let names: Vec<&str> = rows.columns.iter().map(|column| column.name.as_str()).collect();
    let mut out = names.join(" | ") + "\n";
    for row in &rows.values() {
        let cells: Vec<String> = rows
            .columns
            .iter()
            .zip(row)
            .map(|(column, bytes)| match column.name.as_str() {
                // Ids are random.
                "transaction" => "(id)".to_owned(),
                _ => cell(&column.data_type, bytes.as_ref()),
            })
            .collect();
        let _ = writeln!(out, "{}", cells.join(" | "));
    }
    out
}
