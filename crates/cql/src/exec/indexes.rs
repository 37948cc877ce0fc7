//! Secondary indexes: `CREATE INDEX` and `DROP INDEX`.
//!
//! The statement that creates an index also builds it if the table is small. Otherwise a background
//! worker does, and queries that need the index fail until it is built.

use std::collections::BTreeMap;

use carnet::catalog::{
    self, ASCII, CASE_SENSITIVE, ColumnKind, ColumnSchema, INDEX_BITS_MAX, IndexSchema,
    IndexedPart, NORMALIZE, TableSchema,
};
use carnet::derived::Derived;
use carnet::index::{self, IndexLayout, default_bits};
use carnet::{DataType, Tx};
use carnet_base::TableId;

use super::ddl_target::{changed, place};
use super::first_build::FirstBuild;
use crate::ast::{CreateIndex, DropIndex, IndexTarget, Name, TargetPart};
use crate::compile::{SIMILARITY, Similarity};
use crate::cql_error::CqlError;
use crate::result::{ChangeKind, SchemaChange};
use crate::system::Compact;

/// Maximum length of the names of table and column in the name of an index that was given none. With
/// what follows, the name stays within the limit of the catalog.
const AUTOMATIC_NAME_BYTES: usize = 200;

/// Option with the number of partitions that the entries of an index are divided into.
const PARTITIONS: &str = "partitions";

/// Classes of `USING`, with their short names.
const CLASSES: [&str; 6] = [
    "sai",
    "StorageAttachedIndex",
    "org.apache.cassandra.index.sai.StorageAttachedIndex",
    "legacy_local_table",
    "org.apache.cassandra.index.internal.CassandraIndex",
    "org.apache.cassandra.index.sasi.SASIIndex",
];

/// Options of other systems' indexes with the values that Carnet's indexes have. Other values would
/// change the result of queries.
const FIXED_OPTIONS: [(&str, &[&str]); 9] = [
    (
        ANALYZER,
        &[
            "org.apache.cassandra.index.sasi.analyzer.NoOpAnalyzer",
            "org.apache.cassandra.index.sasi.analyzer.NonTokenizingAnalyzer",
        ],
    ),
    (CASE_SENSITIVE, &["true"]),
    (NORMALIZE, &["false"]),
    ("normalize_lowercase", &["false"]),
    ("normalize_uppercase", &["false"]),
    (ASCII, &["false"]),
    ("mode", &["PREFIX", "CONTAINS", "SPARSE"]),
    ("is_literal", &["true", "false"]),
    ("analyzed", &["false"]),
];

/// Option with the class that makes the terms of a text.
const ANALYZER: &str = "analyzer_class";
/// Beginnings of the options by which an index has the words of a text.
const OF_WORDS: [&str; 2] = ["delimiter", "tokenization_"];
const DIVIDE_YOURSELF: &str = ", which has whole texts; write the words to a column of type set<text>, and index that one for \
                               CONTAINS";

/// Options by which a storage-attached index folds texts.
const FOLDING: [&str; 3] = [CASE_SENSITIVE, NORMALIZE, ASCII];
/// Options by which an index of another class compares folded texts.
const OTHER_FOLDING: [&str; 5] =
    [CASE_SENSITIVE, NORMALIZE, "normalize_lowercase", "normalize_uppercase", ASCII];
const FOLD_YOURSELF: &str = ", which compares texts as they are stored; create it USING 'sai' with case_sensitive = false, \
                             which folds for =, or write the folded text to another column, and index that one for LIKE";

/// Options of other systems' indexes that change no answer, whatever their values.
const FREE_OPTIONS: [&str; 4] = [
    "construction_beam_width",
    "max_compaction_flush_memory_in_mb",
    "maximum_node_connections",
    "optimize_for",
];

/// Runs a `CREATE INDEX`. Returns whether the index has yet to be built.
pub(super) async fn create(
    tx: &Tx,
    create: &CreateIndex,
    current: Option<&str>,
    build: &FirstBuild,
) -> Result<(Option<SchemaChange>, bool), CqlError> {
    let (keyspace, name) = place(&create.table, current)?;
    let table = catalog::table(tx, keyspace, name)
        .await?
        .ok_or_else(|| CqlError::invalid(format!("Table '{name}' doesn't exist")))?;
    let target = only_target(create)?;
    check_local(create, &table)?;
    if table.base.is_some() {
        return Err(CqlError::invalid("Secondary indexes on materialized views aren't supported"));
    }
    if table.has_counters() {
        return Err(CqlError::invalid("Secondary indexes on counter tables aren't supported"));
    }
    let column = table.column(&target.column.text).ok_or_else(|| {
        CqlError::invalid(format!("Column '{}' doesn't exist", target.column.text))
    })?;
    Compact::check_index(&table, column.kind)?;
    let part = part_of(&table, column, target.part)?;
    check_vector(create, column)?;
    let index_name = match &create.name {
        Some(name) => name.text.clone(),
        None => free_name(tx, &table, column).await?,
    };
    if let Some(existing) = index::index_table(tx, keyspace, &index_name).await? {
        if create.if_not_exists {
            return Ok((None, false));
        }
        let at = format!("{}.{}", existing.keyspace, existing.name);
        return Err(CqlError::invalid(format!("Index '{index_name}' already exists ({at})")));
    }
    if let Some(same) = table.index_of(column.id, part) {
        if create.if_not_exists {
            return Ok((None, false));
        }
        return Err(CqlError::invalid(format!(
            "Index {index_name} is a duplicate of existing index {}",
            same.name
        )));
    }
    let (options, bits) = options(tx, create)?;
    let index = IndexSchema {
        name: index_name.clone(),
        id: TableId(0),
        column: column.id,
        part,
        class: class(create)?,
        options,
        bits,
        has_static_entries: column.kind == ColumnKind::Partition,
        is_built: false,
        failure: None,
    };
    IndexLayout::new(&table, &index)?;
    check_folding(&index, column)?;
    let table = index::add_index(tx, &table, index).await?;
    let built = match table.index(&index_name) {
        Some(index) => {
            let derived = Derived::index(&table, index)?;
            build.run(tx, &table, &derived).await?
        }
        None => true,
    };
    Ok((changed(ChangeKind::Updated, keyspace, Some(name)), !built))
}

fn only_target(create: &CreateIndex) -> Result<&IndexTarget, CqlError> {
    match create.targets.as_slice() {
        [only] => Ok(only),
        [] => Err(CqlError::invalid("CREATE INDEX names no column")),
        _ if create.is_custom => Err(CqlError::unsupported("an index on several columns")),
        _ => Err(CqlError::invalid("Only CUSTOM indexes support multiple columns")),
    }
}

fn is_storage_attached(create: &CreateIndex) -> bool {
    create.class.as_deref().is_some_and(|class| {
        class.eq_ignore_ascii_case("sai") || class.ends_with("StorageAttachedIndex")
    })
}

/// Refuses to fold the values of a key, and others than texts.
fn check_folding(index: &IndexSchema, column: &ColumnSchema) -> Result<(), CqlError> {
    if index.folding().is_none() {
        return Ok(());
    }
    if column.is_key() {
        let given = index.options.iter().filter(|(key, _)| FOLDING.contains(&key.as_str()));
        let given: Vec<String> = given.map(|(key, value)| format!("{key}={value}")).collect();
        return Err(CqlError::invalid(format!(
            "Analysis options are not supported on primary key columns, but found {}",
            given.join(", ")
        )));
    }
    let types = index.part.types(&column.data_type).unwrap_or_default();
    match types.as_slice() {
        [DataType::Text | DataType::Ascii] => Ok(()),
        _ => Err(CqlError::invalid(format!("CQL type {} cannot be analyzed.", column.data_type))),
    }
}

/// Refuses an index for `ANN OF` on a vector that has no similarity.
fn check_vector(create: &CreateIndex, column: &ColumnSchema) -> Result<(), CqlError> {
    let DataType::Vector(vector) = &column.data_type else { return Ok(()) };
    if is_storage_attached(create) && vector.0 != DataType::Float {
        return Err(CqlError::invalid(
            "SAI ANN indexes are only allowed on vector columns with float elements",
        ));
    }
    Ok(())
}

/// Refuses a local index of ScyllaDB that does not name the partition key. One that does is an index:
/// a statement that names a partition reads its part of the entries only.
fn check_local(create: &CreateIndex, table: &TableSchema) -> Result<(), CqlError> {
    let Some(given) = &create.local else { return Ok(()) };
    let key = table.partition_key().map(|column| column.name.as_str());
    if key.eq(given.iter().map(Name::as_str)) {
        return Ok(());
    }
    Err(CqlError::invalid("Local index definition must contain full partition key only"))
}

/// Returns the indexed part of a column.
fn part_of(
    table: &TableSchema,
    column: &ColumnSchema,
    part: TargetPart,
) -> Result<IndexedPart, CqlError> {
    let name = &column.name;
    let refuse = |message: String| Err(CqlError::invalid(message));
    if column.kind == ColumnKind::Partition && table.partition_key().count() == 1 {
        return refuse(format!(
            "Cannot create secondary index on the only partition key column {name}"
        ));
    }
    if column.data_type.contains(&DataType::Duration) {
        return refuse(format!("Secondary indexes are not supported on duration columns ({name})"));
    }
    let data_type = &column.data_type;
    let is_collection =
        matches!(data_type, DataType::List(_) | DataType::Set(_) | DataType::Map(_));
    let function = part.function();
    if let (false, Some(function)) = (is_collection, function) {
        return refuse(format!(
            "Cannot create {function}() index on {name}. Non-collection columns only support \
             simple indexes"
        ));
    }
    if column.is_multi_cell && data_type.is_record() {
        return refuse(format!("Cannot create index on non-frozen UDT column {name}"));
    }
    if !is_collection {
        return Ok(IndexedPart::Value);
    }
    match (part, column.is_multi_cell) {
        (TargetPart::Full, false) => Ok(IndexedPart::Value),
        (TargetPart::Full, true) => {
            refuse("full() indexes can only be created on frozen collections".to_owned())
        }
        (_, false) => refuse(format!(
            "Cannot create {}() index on frozen column {name}. Frozen collections are immutable \
             and must be fully indexed by using the 'full({name})' modifier",
            function.unwrap_or("values")
        )),
        (TargetPart::Keys | TargetPart::Entries, true)
            if !matches!(data_type, DataType::Map(_)) =>
        {
            refuse(format!(
                "Cannot create index on {} of column {name} with non-map type",
                function.unwrap_or_default()
            ))
        }
        (TargetPart::Keys, true) => Ok(IndexedPart::Keys),
        (TargetPart::Entries, true) => Ok(IndexedPart::Entries),
        (TargetPart::Plain | TargetPart::Values, true) => Ok(IndexedPart::Values),
    }
}

/// Returns a name for an index that was given none.
async fn free_name(
    tx: &Tx,
    table: &TableSchema,
    column: &ColumnSchema,
) -> Result<String, CqlError> {
    let letters = |text: &str| -> String {
        text.chars().filter(|letter| letter.is_ascii_alphanumeric() || *letter == '_').collect()
    };
    let mut base = format!("{}_{}", letters(&table.name), letters(&column.name));
    base.truncate(AUTOMATIC_NAME_BYTES);
    let mut name = format!("{base}_idx");
    let mut number = 0;
    while index::index_table(tx, &table.keyspace, &name).await?.is_some() {
        number += 1;
        name = format!("{base}_idx_{number}");
    }
    Ok(name)
}

fn class(create: &CreateIndex) -> Result<Option<String>, CqlError> {
    let Some(class) = &create.class else {
        if create.is_custom {
            return Err(CqlError::config(
                "CUSTOM index requires specifying the index class, as in USING 'sai'",
            ));
        }
        return Ok(None);
    };
    if CLASSES.iter().any(|known| known.eq_ignore_ascii_case(class)) {
        return Ok(Some(class.clone()));
    }
    Err(CqlError::config(format!("Unable to find custom indexer class '{class}'")))
}

/// Returns the options as text, and the number of token bits that divide the entries.
fn options(tx: &Tx, create: &CreateIndex) -> Result<(BTreeMap<String, String>, u8), CqlError> {
    let mut options = BTreeMap::new();
    let mut bits = default_bits(tx);
    for (key, value) in &create.options {
        let (key, value) = (key.plain(), value.plain());
        if key == PARTITIONS {
            bits = bits_of(&value)?;
        } else {
            check_option(create, &key, &value)?;
        }
        if options.insert(key.clone(), value).is_some() {
            return Err(CqlError::invalid(format!("option {key} of the index is given twice")));
        }
    }
    if create.class.is_none() && !options.is_empty() {
        return Err(CqlError::invalid("Cannot specify options for a non-CUSTOM index"));
    }
    Ok((options, bits))
}

fn bits_of(value: &str) -> Result<u8, CqlError> {
    let count: Option<u32> = value.parse().ok().filter(|count: &u32| count.is_power_of_two());
    let bits = count.and_then(|count| u8::try_from(count.trailing_zeros()).ok());
    bits.filter(|bits| *bits <= INDEX_BITS_MAX).ok_or_else(|| {
        let most = 1_u32 << INDEX_BITS_MAX;
        CqlError::config(format!(
            "option {PARTITIONS} of the index: expected a power of two from 1 to {most}, found \
             '{value}'"
        ))
    })
}

fn check_option(create: &CreateIndex, key: &str, value: &str) -> Result<(), CqlError> {
    if is_storage_attached(create) && FOLDING.contains(&key) {
        return match ["true", "false"].iter().any(|known| known.eq_ignore_ascii_case(value)) {
            true => Ok(()),
            false => {
                Err(CqlError::invalid(format!("Illegal value for boolean option '{key}': {value}")))
            }
        };
    }
    match FIXED_OPTIONS.iter().find(|(known, _)| *known == key) {
        Some((_, values)) if values.contains(&value) => Ok(()),
        Some(_) => {
            let remedy = match key {
                ANALYZER => DIVIDE_YOURSELF,
                key if OTHER_FOLDING.contains(&key) => FOLD_YOURSELF,
                _ => "",
            };
            Err(CqlError::unsupported(format!("option {key} = {value} of an index{remedy}")))
        }
        None if OF_WORDS.iter().any(|words| key.starts_with(words)) => Err(CqlError::unsupported(
            format!("option {key} = {value} of an index{DIVIDE_YOURSELF}"),
        )),
        None if key == SIMILARITY && Similarity::from_option(value).is_some() => Ok(()),
        None if key == SIMILARITY => Err(CqlError::invalid(format!(
            "Similarity function '{value}' was not found: it is cosine, dot_product or euclidean"
        ))),
        None if FREE_OPTIONS.contains(&key) => Ok(()),
        None => Err(CqlError::config(format!("Properties specified [{key}] are not understood"))),
    }
}

/// Runs a `DROP INDEX`.
pub(super) async fn drop(
    tx: &Tx,
    drop: &DropIndex,
    current: Option<&str>,
) -> Result<Option<SchemaChange>, CqlError> {
    let (keyspace, name) = place(&drop.name, current)?;
    let Some(table) = index::index_table(tx, keyspace, name).await? else {
        if drop.if_exists {
            return Ok(None);
        }
        return Err(CqlError::invalid(format!("Index '{keyspace}.{name}' doesn't exist")));
    };
    index::drop_index(tx, &table, name).await?;
    Ok(changed(ChangeKind::Updated, keyspace, Some(&table.name)))
}
