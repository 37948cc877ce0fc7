//! The schema of a view from its `CREATE MATERIALIZED VIEW`, under Cassandra's rules.

use std::collections::{BTreeMap, HashSet};

use carnet::catalog::{
    ColumnKind, ColumnSchema, Order, TableSchema, ViewOperator, ViewRelation, ViewSchema, ViewTest,
};
use carnet::{DataType, Uuid};
use carnet_base::{ColumnId, TableId};

use crate::ast::{CompareOp, CreateView, InValues, Name, Relation, SelectItem, Selection, Term};
use crate::compile::{Environment, constant};
use crate::cql_error::CqlError;

/// Makes the schema of a view without its ids and options.
pub(super) fn view_schema(
    base: &TableSchema,
    name: &str,
    create: &CreateView,
    environment: &Environment<'_>,
) -> Result<ViewSchema, CqlError> {
    let selected = selected(base, name, &create.selection)?;
    let key = key_columns(name, create, &selected)?;
    check_key(base, name, &key)?;
    let partition: Vec<ColumnId> = key.iter().map(|column| column.id).collect();
    let (partition, clustering) = partition.split_at(create.key.partition.len());
    let orders = orders(create, &key[partition.len()..])?;
    let filter = filter(base, &key, &create.filter, environment)?;
    let is_key = |column: &&ColumnSchema| key.iter().any(|found| found.id == column.id);
    let columns = match &create.selection {
        Selection::All => None,
        Selection::Items(_) => {
            let others = selected.iter().copied().filter(|column| !is_key(column));
            Some(others.map(|column| column.id).collect())
        }
    };
    Ok(ViewSchema {
        name: name.to_owned(),
        id: TableId(0),
        uuid: Uuid::nil(),
        partition: partition.to_vec(),
        clustering: clustering.iter().copied().zip(orders).collect(),
        columns,
        filter,
        options: BTreeMap::new(),
        is_built: false,
        failure: None,
    })
}

/// Returns the selected columns of the base table.
fn selected<'a>(
    base: &'a TableSchema,
    view: &str,
    selection: &Selection,
) -> Result<Vec<&'a ColumnSchema>, CqlError> {
    let mut columns: Vec<_> = match selection {
        Selection::All => base.columns.iter().collect(),
        Selection::Items(items) => {
            items.iter().map(|item| item_column(base, item)).collect::<Result<_, _>>()?
        }
    };
    let mut known = HashSet::new();
    columns.retain(|column| known.insert(column.id));
    match columns.iter().find(|column| column.kind == ColumnKind::Static) {
        Some(column) => Err(CqlError::invalid(format!(
            "Cannot include static column '{}' in materialized view '{view}'",
            column.name
        ))),
        None => Ok(columns),
    }
}

fn item_column<'a>(base: &'a TableSchema, item: &SelectItem) -> Result<&'a ColumnSchema, CqlError> {
    if let Some(alias) = &item.alias {
        return Err(CqlError::invalid(format!(
            "Cannot use aliases when defining a materialized view (got {} AS {alias})",
            item.term
        )));
    }
    match &item.term {
        Term::Reference(reference) if reference.field.is_none() => column(base, &reference.name),
        term => Err(CqlError::invalid(format!(
            "Can only select columns by name when defining a materialized view (got {term})"
        ))),
    }
}

fn column<'a>(base: &'a TableSchema, name: &Name) -> Result<&'a ColumnSchema, CqlError> {
    base.column(&name.text).ok_or_else(|| {
        CqlError::invalid(format!(
            "Undefined column name {name} in table {}.{}",
            base.keyspace, base.name
        ))
    })
}

/// Returns the columns of the view's key: partition key, then clustering key.
fn key_columns<'a>(
    view: &str,
    create: &CreateView,
    selected: &[&'a ColumnSchema],
) -> Result<Vec<&'a ColumnSchema>, CqlError> {
    let mut key: Vec<&ColumnSchema> = Vec::new();
    for name in create.key.partition.iter().chain(&create.key.clustering) {
        let found = selected.iter().find(|column| column.name == name.text);
        let Some(column) = found else {
            return Err(CqlError::invalid(format!(
                "Unknown column '{}' referenced in PRIMARY KEY for materialized view '{view}'",
                name.text
            )));
        };
        if key.iter().any(|known| known.id == column.id) {
            return Err(CqlError::invalid(format!(
                "Duplicate column '{}' in PRIMARY KEY clause for materialized view '{view}'",
                name.text
            )));
        }
        check_key_type(column)?;
        key.push(column);
    }
    Ok(key)
}

fn check_key_type(column: &ColumnSchema) -> Result<(), CqlError> {
    let ColumnSchema { name, data_type, .. } = column;
    let message = if column.is_multi_cell {
        let kind = if data_type.is_record() { "user-defined" } else { "collection" };
        format!("Invalid non-frozen {kind} type '{data_type}' for PRIMARY KEY column '{name}'")
    } else if data_type.contains(&DataType::Duration) {
        format!("duration type is not supported for PRIMARY KEY column '{name}'")
    } else {
        return Ok(());
    };
    Err(CqlError::invalid(message))
}

/// Checks that the key has all columns of the base table's key, and at most one other.
fn check_key(base: &TableSchema, view: &str, key: &[&ColumnSchema]) -> Result<(), CqlError> {
    let is_missing = |column: &&ColumnSchema| key.iter().all(|found| found.id != column.id);
    let base_key = base.partition_key().chain(base.clustering_key());
    let missing = names(base_key.filter(is_missing));
    if !missing.is_empty() {
        return Err(CqlError::invalid(format!(
            "Cannot create materialized view '{view}' without primary key columns {} from base \
             table '{}'",
            missing.join(", "),
            base.name
        )));
    }
    let others = names(key.iter().copied().filter(|column| !column.is_key()));
    if others.len() > 1 {
        return Err(CqlError::invalid(format!(
            "Cannot include more than one non-primary key column in materialized view primary key \
             (got {})",
            others.join(", ")
        )));
    }
    Ok(())
}

fn names<'a>(columns: impl Iterator<Item = &'a ColumnSchema>) -> Vec<&'a str> {
    columns.map(|column| column.name.as_str()).collect()
}

/// Returns the order of each clustering column: as given, otherwise as in the base table.
fn orders(create: &CreateView, clustering: &[&ColumnSchema]) -> Result<Vec<Order>, CqlError> {
    let given = &create.clustering_order;
    if given.is_empty() {
        let order = |column: &&ColumnSchema| match column.kind {
            ColumnKind::Clustering(order) => order,
            _ => Order::Asc,
        };
        return Ok(clustering.iter().map(order).collect());
    }
    let names = given.iter().map(|ordering| ordering.column.text.as_str());
    if !names.eq(clustering.iter().map(|column| column.name.as_str())) {
        return Err(CqlError::invalid(
            "Clustering key columns must exactly match columns in CLUSTERING ORDER BY directive",
        ));
    }
    let order = |is_descending| if is_descending { Order::Desc } else { Order::Asc };
    Ok(given.iter().map(|ordering| order(ordering.descending)).collect())
}

/// Returns the relations of the `WHERE`, which must restrict all columns of the view's key.
fn filter(
    base: &TableSchema,
    key: &[&ColumnSchema],
    relations: &[Relation],
    environment: &Environment<'_>,
) -> Result<Vec<ViewRelation>, CqlError> {
    let filter = relations.iter().map(|relation| view_relation(base, relation, environment));
    let filter = filter.collect::<Result<Vec<_>, _>>()?;
    let is_free = |column: &&&ColumnSchema| filter.iter().all(|found| found.column != column.id);
    let free: Vec<&str> = key.iter().filter(is_free).map(|column| column.name.as_str()).collect();
    if !free.is_empty() {
        return Err(CqlError::invalid(format!(
            "Primary key columns {} must be restricted with 'IS NOT NULL' or otherwise",
            free.join(", ")
        )));
    }
    Ok(filter)
}

fn view_relation(
    base: &TableSchema,
    relation: &Relation,
    environment: &Environment<'_>,
) -> Result<ViewRelation, CqlError> {
    let unsupported =
        || CqlError::unsupported(format!("{relation} in the WHERE of a materialized view"));
    if matches!(relation, Relation::Token { .. }) {
        return Err(CqlError::invalid(
            "Cannot use token relation when defining a materialized view",
        ));
    }
    let [name] = relation.columns() else { return Err(unsupported()) };
    let column = column(base, name)?;
    if column.kind == ColumnKind::Static {
        return Err(unsupported());
    }
    if !column.is_key() && !matches!(relation, Relation::IsNotNull(_)) {
        return Err(CqlError::invalid(format!(
            "Non-primary key columns can only be restricted with 'IS NOT NULL' (got: {} restricted \
             illegally)",
            column.name
        )));
    }
    let value = |term: &Term| {
        let value = constant(term, &column.data_type, &column.name, environment)?;
        Ok::<_, CqlError>(value.serialize())
    };
    let test = match relation {
        Relation::IsNotNull(_) => ViewTest::NotNull,
        Relation::Compare { op, value: term, .. } => ViewTest::Compare {
            operator: operator(*op).ok_or_else(unsupported)?,
            values: vec![value(term)?],
            text: term.to_string(),
        },
        Relation::In { values: InValues::List(terms), .. } => {
            let texts: Vec<String> = terms.iter().map(Term::to_string).collect();
            ViewTest::Compare {
                operator: ViewOperator::In,
                values: terms.iter().map(value).collect::<Result<_, _>>()?,
                text: format!("({})", texts.join(", ")),
            }
        }
        _ => return Err(unsupported()),
    };
    Ok(ViewRelation { column: column.id, test })
}

const fn operator(op: CompareOp) -> Option<ViewOperator> {
    Some(match op {
        CompareOp::Equal => ViewOperator::Equal,
        CompareOp::NotEqual => return None,
        CompareOp::Less => ViewOperator::Less,
        CompareOp::LessOrEqual => ViewOperator::LessOrEqual,
        CompareOp::Greater => ViewOperator::Greater,
        CompareOp::GreaterOrEqual => ViewOperator::GreaterOrEqual,
    })
}
