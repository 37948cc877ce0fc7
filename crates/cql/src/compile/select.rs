//! `SELECT`: the rows that it reads, and the columns that it returns.

use std::sync::Arc;

use carnet::catalog::{ColumnKind, ColumnSchema, IndexSchema, TableSchema};
use carnet::{DataType, Value};

use super::cell_time::CellTime;
use super::compiler::{Appended, Compiler};
use super::environment::Environment;
use super::evaluated::Evaluated;
use super::index_choice::{self, IndexPlan};
use super::names::column_name;
use super::near::NearPlan;
use super::operand::Operand;
use super::order::{RowOrder, order};
use super::output::{Aggregate, Output, is_aggregate};
use super::plain_columns::PlainColumns;
use super::relation::{Filter, find};
use super::where_clause::{LIMIT_TYPE, Where};
use crate::ast::{Arguments, FunctionCall, Select, SelectItem, Selection, Term};
use crate::cql_error::CqlError;
use crate::result::{ColumnSpec, Columns};
use crate::shown::shown;
use crate::system::{self, SystemTable};

const TOKEN_FUNCTION: &str = "token";

/// A compiled `SELECT`.
#[derive(Clone, Debug)]
pub(crate) struct SelectPlan {
    pub(crate) table: Arc<TableSchema>,
    /// The system table, whose rows are made for each read.
    pub(crate) system: Option<&'static SystemTable>,
    pub(crate) filter: Where,
    /// Index whose entries find the rows.
    pub(crate) index: Option<Box<IndexPlan>>,
    pub(crate) columns: Columns,
    /// Columns within the texts of `SELECT JSON`.
    pub(crate) json: Option<Vec<ColumnSpec>>,
    pub(crate) outputs: Vec<Output>,
    /// The outputs, if rows can be copied from the store to the result.
    pub(crate) plain: Option<PlainColumns>,
    /// Whether one row is returned, aggregated from all rows read.
    pub(crate) aggregates: bool,
    /// Positions of the columns of `GROUP BY`, and of skipped columns, which have one value.
    pub(crate) group: Option<Vec<usize>>,
    pub(crate) order: RowOrder,
    /// Whether only the rows that are near to a vector are returned.
    pub(crate) near: Option<Box<NearPlan>>,
    /// Whether it returns one row of each partition, with its key and static columns.
    pub(crate) distinct: bool,
    pub(crate) limit: Option<Operand>,
    pub(crate) per_partition_limit: Option<Operand>,
}

impl SelectPlan {
    /// Returns Cassandra's warning about an aggregate of several partitions.
    pub(crate) fn warning(&self) -> Option<&'static str> {
        let is_aggregated = self.aggregates || self.group.is_some();
        if !is_aggregated || self.filter.names_one_partition() {
            return None;
        }
        Some(match self.filter.names_partitions() {
            true => "Aggregation query used on multiple partition keys (IN restriction)",
            false => "Aggregation query used without partition key",
        })
    }
}

/// Returns the positions of the columns of outputs; `None` if one is no column.
fn positions(outputs: &[Output]) -> Option<Vec<usize>> {
    let position = |output: &Output| match output {
        Output::Column(position) => Some(*position),
        _ => None,
    };
    outputs.iter().map(position).collect()
}

impl<'a> Compiler<'a> {
    /// Compiles a `SELECT`.
    pub(crate) fn select(
        &mut self,
        select: &Select,
        table: &'a Arc<TableSchema>,
    ) -> Result<SelectPlan, CqlError> {
        if table.base.as_ref().is_some_and(|base| !base.is_built) {
            return Err(table.not_built().into());
        }
        let system = system::find_by_id(table.id);
        if system.is_some() && select.as_of.is_some() {
            return Err(CqlError::invalid("AS OF on a system table: it has no past"));
        }
        self.using_markers(&select.using);
        self.enter(table);
        let (columns, outputs) = match &select.selection {
            Selection::All => all_columns(table),
            Selection::Items(items) => {
                self.in_selection = true;
                let compiled = self.within_row(|compiler| compiler.items(items, table));
                self.in_selection = false;
                compiled?
            }
        };
        let filter = self.filter(table, &select.filter)?;
        let mut order = order(table, &select.order_by, &filter)?;
        let is_grouped =
            select.distinct || select.per_partition_limit.is_some() || !select.group_by.is_empty();
        let index = match order.merged {
            Some(_) => None,
            None => index_choice::choose(table, &filter, is_grouped),
        };
        if let Some(index) = &index
            && !index.schema(table).is_built
            && !select.allow_filtering
        {
            return Err(index_is_building(index.schema(table)));
        }
        let index = index.filter(|index| index.schema(table).is_built);
        // All rows of a system table are made anyway: like Cassandra's virtual tables.
        if filter.needs_filtering()
            && !select.allow_filtering
            && system.is_none()
            && !index_choice::serves_all(table, &filter)
        {
            return Err(CqlError::invalid(
                "Cannot execute this query as it might involve data filtering and thus may have \
                 unpredictable performance. If you want to execute this query despite the \
                 performance unpredictability, use ALLOW FILTERING",
            ));
        }
        let near = self.near(select, table)?;
        let group = group(table, &select.group_by, &filter)?;
        if group.is_some() && order.merged.is_some() {
            return Err(CqlError::unsupported("GROUP BY with ORDER BY of several partitions"));
        }
        if select.distinct && select.per_partition_limit.is_some() {
            return Err(CqlError::invalid(
                "PER PARTITION LIMIT is not allowed with SELECT DISTINCT queries",
            ));
        }
        let aggregates =
            group.is_none() && outputs.iter().any(|output| !output.aggregates().is_empty());
        if aggregates && near.is_some() {
            return Err(CqlError::unsupported("aggregates of the rows of ANN OF"));
        }
        if aggregates && select.per_partition_limit.is_some() {
            return Err(CqlError::invalid(
                "PER PARTITION LIMIT is not allowed with aggregate queries.",
            ));
        }
        if aggregates {
            // Like Cassandra, which orders results: one row needs no order.
            order.merged = None;
        }
        if select.distinct {
            check_distinct(table, &outputs, &filter, group.as_deref())?;
        }
        let mut limit = |term: &Option<Term>, what| {
            term.as_ref().map(|term| self.operand(term, &LIMIT_TYPE, what)).transpose()
        };
        let per_partition_limit = limit(&select.per_partition_limit, "[per_partition_limit]")?;
        let limit = limit(&select.limit, "[limit]")?;
        // The snapshot is taken before the plan runs: this only types the marker.
        select.as_of.as_ref().map(|term| self.as_of(term)).transpose()?;
        let (columns, json) = match select.json {
            true => (vec![spec(table, "[json]".to_owned(), DataType::Text)], Some(columns)),
            false => (columns, None),
        };
        let is_plain =
            json.is_none() && filter.filters.is_empty() && near.is_none() && group.is_none();
        let is_plain = is_plain && system.is_none();
        let positions = positions(&outputs).filter(|_| is_plain);
        Ok(SelectPlan {
            plain: positions.and_then(|positions| PlainColumns::of(table, &positions)),
            json,
            per_partition_limit,
            limit,
            table: Arc::clone(table),
            system,
            filter,
            index: index.map(Box::new),
            columns: columns.into(),
            outputs,
            aggregates,
            group,
            order,
            near: near.map(Box::new),
            distinct: select.distinct,
        })
    }

    /// Compiles the time of an `AS OF`: an integer is a Carnet timestamp, anything else a
    /// wall-clock time.
    pub(crate) fn as_of(&mut self, term: &Term) -> Result<Operand, CqlError> {
        let data_type = match self.type_of(term)? {
            Some(
                DataType::Tinyint
                | DataType::Smallint
                | DataType::Int
                | DataType::Bigint
                | DataType::Varint,
            ) => DataType::Bigint,
            _ => DataType::Timestamp,
        };
        self.operand(term, &data_type, "[as_of]")
    }

    fn items(
        &mut self,
        items: &[SelectItem],
        table: &TableSchema,
    ) -> Result<(Vec<ColumnSpec>, Vec<Output>), CqlError> {
        let mut columns = Vec::with_capacity(items.len());
        let mut outputs = Vec::with_capacity(items.len());
        for item in items {
            let (name, data_type, output) = self.item(&item.term, table)?;
            let name = item.alias.as_ref().map_or(name, |alias| alias.text.clone());
            columns.push(spec(table, name, data_type));
            outputs.push(output);
        }
        Ok((columns, outputs))
    }

    fn item(
        &mut self,
        term: &Term,
        table: &TableSchema,
    ) -> Result<(String, DataType, Output), CqlError> {
        match term {
            Term::Reference(reference) if reference.field.is_none() => {
                let (position, column) = find(table, &reference.name)?;
                Ok((column.name.clone(), column.data_type.clone(), Output::Column(position)))
            }
            Term::Call(call) => {
                if is_aggregate(call.function.name.as_str()) {
                    let (name, aggregate) = self.aggregate(call, table)?;
                    let data_type = aggregate.returns();
                    return Ok((name, data_type, Output::Aggregate(aggregate)));
                }
                if let Some(time) = CellTime::find(call.function.name.as_str()) {
                    let (name, data_type, found) = self.time_of(time, call, table)?;
                    return Ok((name, data_type, Output::Time(found)));
                }
                match call.function.name.as_str() {
                    TOKEN_FUNCTION => token(call, table),
                    name => self.calculated(term, table, name),
                }
            }
            term => self.calculated(term, table, "a selected term"),
        }
    }

    /// Compiles a selected term that is calculated from the columns of a row, with their times and the
    /// token, or from aggregates.
    fn calculated(
        &mut self,
        term: &Term,
        table: &TableSchema,
        what: &str,
    ) -> Result<(String, DataType, Output), CqlError> {
        let (calls, aggregates, appended) = self.appended(term, table)?;
        if !aggregates.is_empty() && !appended.is_empty() {
            return Err(CqlError::unsupported(
                "a term of an aggregate and of a write time, time to live or token; select both, and \
                 calculate in the application",
            ));
        }
        let before = std::mem::replace(&mut self.appended, calls);
        let operand = self.untyped_operand(term, what);
        self.appended = before;
        let operand = operand?;
        let data_type = operand.data_type.clone();
        let output = if !aggregates.is_empty() {
            Output::Composed(operand, aggregates)
        } else if !appended.is_empty() {
            Output::Derived(operand, appended)
        } else {
            Output::Operand(operand)
        };
        Ok((column_name(term), data_type, output))
    }

    /// Compiles the calls within a selected term whose results follow the columns: the place and type of
    /// each, the aggregates, and the other outputs.
    fn appended(
        &mut self,
        term: &Term,
        table: &TableSchema,
    ) -> Result<(Appended, Vec<Aggregate>, Vec<Output>), CqlError> {
        let (mut calls, mut aggregates, mut appended) = (Appended::new(), Vec::new(), Vec::new());
        for call in appended_calls(term) {
            if calls.contains_key(call) {
                continue;
            }
            let name = call.function.name.as_str();
            let place = aggregates.len() + appended.len();
            let data_type = if is_aggregate(name) {
                let (_, aggregate) = self.aggregate(call, table)?;
                let data_type = aggregate.returns();
                aggregates.push(aggregate);
                data_type
            } else {
                let (_, data_type, output) = self.item(&Term::Call(call.clone()), table)?;
                appended.push(output);
                data_type
            };
            calls.insert(call.clone(), (place, data_type));
        }
        Ok((calls, aggregates, appended))
    }

    /// Compiles an aggregate. Returns its name in results, too.
    fn aggregate(
        &mut self,
        call: &FunctionCall,
        table: &TableSchema,
    ) -> Result<(String, Aggregate), CqlError> {
        let function = call.function.name.as_str();
        let count = || ("count".to_owned(), Aggregate::rows());
        let terms = match &call.arguments {
            Arguments::Star if function == "count" => return Ok(count()),
            Arguments::Star => {
                return Err(CqlError::invalid(format!("{function}(*): name a column")));
            }
            Arguments::Terms(terms) => terms,
        };
        let [term] = terms.as_slice() else {
            return Err(CqlError::invalid(format!("{function}() takes one argument")));
        };
        if matches!((function, term), ("count", Term::Literal(_))) {
            return Ok(count());
        }
        let (_, data_type, output) = self.item(term, table)?;
        if !output.aggregates().is_empty() {
            return Err(CqlError::invalid(
                "aggregate functions cannot be used as arguments of aggregate functions",
            ));
        }
        let aggregate = Aggregate::new(function, output, data_type)?;
        Ok((column_name(&Term::Call(call.clone())), aggregate))
    }
}

/// Compiles a `GROUP BY`: leading columns of the primary key. A column that has one value may be left
/// out. Returns the positions of all columns up to the last one.
fn group(
    table: &TableSchema,
    terms: &[Term],
    filter: &Where,
) -> Result<Option<Vec<usize>>, CqlError> {
    if terms.is_empty() {
        return Ok(None);
    }
    let key = |kind: fn(&ColumnKind) -> bool| {
        let columns = table.columns.iter().enumerate();
        columns.filter(move |(_, column)| kind(&column.kind)).map(|(position, _)| position)
    };
    let partition: Vec<usize> = key(|kind| *kind == ColumnKind::Partition).collect();
    let clustering = key(|kind| matches!(kind, ColumnKind::Clustering(_)));
    let positions: Vec<usize> = partition.iter().copied().chain(clustering).collect();
    let is_fixed = |place: usize| match place.checked_sub(partition.len()) {
        Some(place) => filter.fixes(table, place),
        None => filter.fixes_partition(place),
    };
    let mut next = 0;
    for term in terms {
        let Term::Reference(reference) = term else {
            return Err(CqlError::unsupported(format!("GROUP BY {}", shown(term))));
        };
        let (position, column) = find(table, &reference.name)?;
        let Some(place) = positions.iter().position(|found| *found == position) else {
            return Err(CqlError::invalid(format!(
                "Group by is currently only supported on the columns of the PRIMARY KEY, got {}",
                column.name
            )));
        };
        if place < next || !(next..place).all(is_fixed) {
            return Err(CqlError::invalid(
                "Group by currently only support groups of columns following their declared order \
                 in the PRIMARY KEY",
            ));
        }
        next = place + 1;
    }
    if !(next..partition.len()).all(is_fixed) {
        return Err(CqlError::invalid(
            "Group by is not supported on only a part of the partition key",
        ));
    }
    Ok(Some(positions[..next.max(partition.len())].to_vec()))
}

fn index_is_building(index: &IndexSchema) -> CqlError {
    if let Some(failure) = &index.failure {
        return CqlError::invalid(format!(
            "The secondary index '{}' is not available, as its build has failed: {}. Change the row, \
             drop it and create it again, or use ALLOW FILTERING to read all rows",
            index.name,
            failure.text()
        ));
    }
    CqlError::invalid(format!(
        "The secondary index '{}' is not yet available as it is building; wait for it, see \
         system_views.indexes, or use ALLOW FILTERING to read all rows",
        index.name
    ))
}

fn spec(table: &TableSchema, name: String, data_type: DataType) -> ColumnSpec {
    ColumnSpec { keyspace: table.keyspace.clone(), table: table.name.clone(), name, data_type }
}

/// Returns the positions of a table's columns in the order of `*`: the key, then static columns by
/// name, then the others by name.
pub(crate) fn star_order(table: &TableSchema) -> Vec<usize> {
    let rank = |column: &ColumnSchema| match column.kind {
        ColumnKind::Partition => 0,
        ColumnKind::Clustering(_) => 1,
        ColumnKind::Static => 2,
        ColumnKind::Regular => 3,
    };
    let mut positions: Vec<usize> = (0..table.columns.len()).collect();
    positions.sort_by_key(|position| {
        let column = &table.columns[*position];
        let name = if rank(column) < 2 { "" } else { column.name.as_str() };
        (rank(column), name)
    });
    positions
}

fn all_columns(table: &TableSchema) -> (Vec<ColumnSpec>, Vec<Output>) {
    let positions = star_order(table);
    let columns = positions.iter().map(|position| {
        let column = &table.columns[*position];
        spec(table, column.name.clone(), column.data_type.clone())
    });
    (columns.collect(), positions.iter().copied().map(Output::Column).collect())
}

/// Returns the calls within a term whose results are no values of the row: of aggregates, times and tokens.
fn appended_calls(term: &Term) -> Vec<&FunctionCall> {
    let is_appended =
        |name: &str| is_aggregate(name) || name == TOKEN_FUNCTION || CellTime::find(name).is_some();
    match term {
        Term::Call(call) if is_appended(call.function.name.as_str()) => vec![call],
        term => term.children().into_iter().flat_map(appended_calls).collect(),
    }
}

fn token(call: &FunctionCall, table: &TableSchema) -> Result<(String, DataType, Output), CqlError> {
    let Arguments::Terms(terms) = &call.arguments else {
        return Err(CqlError::invalid("token(*) is no token"));
    };
    let names: Option<Vec<&str>> = terms
        .iter()
        .map(|term| match term {
            Term::Reference(reference) if reference.field.is_none() => {
                Some(reference.name.as_str())
            }
            _ => None,
        })
        .collect();
    let Some(names) = names else {
        return Err(CqlError::unsupported("token() of values in a selection"));
    };
    if !table.partition_key().map(|column| column.name.as_str()).eq(names.iter().copied()) {
        return Err(CqlError::invalid(
            "token() takes the columns of the partition key, in their order",
        ));
    }
    let shown = format!("system.token({})", names.join(", "));
    Ok((shown, DataType::Bigint, Output::Token))
}

fn check_distinct(
    table: &TableSchema,
    outputs: &[Output],
    filter: &Where,
    group: Option<&[usize]>,
) -> Result<(), CqlError> {
    let is_of_partition = |position: &usize| {
        matches!(table.columns[*position].kind, ColumnKind::Partition | ColumnKind::Static)
    };
    // Results of aggregates follow the columns.
    let is_column = |position: &usize| *position < table.columns.len();
    let requested: Vec<usize> =
        outputs.iter().flat_map(Output::columns).filter(is_column).collect();
    if let Some(other) = requested.iter().find(|position| !is_of_partition(position)) {
        return Err(CqlError::invalid(format!(
            "SELECT DISTINCT queries must only request partition key columns and/or static columns \
             (not {})",
            table.columns[*other].name
        )));
    }
    let filtered = filter.filters.iter().flat_map(Filter::positions);
    if filter.restricts_clustering() || !filtered.into_iter().all(is_of_partition) {
        return Err(CqlError::invalid(
            "SELECT DISTINCT with WHERE clause only supports restriction by partition key and/or \
             static columns.",
        ));
    }
    if group.is_some_and(|group| !group.iter().all(is_of_partition)) {
        return Err(CqlError::invalid(
            "Grouping on clustering columns is not allowed for SELECT DISTINCT queries",
        ));
    }
    // Without the whole key, different partitions would give equal rows. Like Cassandra, this permits
    // them for partitions that the statement names.
    let has_token = outputs.iter().any(Output::has_token);
    if filter.names_partitions() || has_token {
        return Ok(());
    }
    let columns = table.columns.iter().enumerate();
    let mut key = columns.filter(|(_, column)| column.kind == ColumnKind::Partition);
    match key.find(|(position, _)| !requested.contains(position)) {
        Some((_, missing)) => Err(CqlError::invalid(format!(
            "SELECT DISTINCT queries must request all the partition key columns (missing {})",
            missing.name
        ))),
        None => Ok(()),
    }
}

/// Evaluates a limit.
pub(crate) fn limit_value(
    limit: Option<&Operand>,
    environment: &Environment<'_>,
) -> Result<Option<u32>, CqlError> {
    let Some(limit) = limit else { return Ok(None) };
    if limit.evaluate(environment)? == Evaluated::Unset {
        return Ok(None);
    }
    match limit.required(environment)? {
        Value::Int(limit) if limit > 0 => Ok(u32::try_from(limit).ok()),
        _ => Err(CqlError::invalid("LIMIT must be strictly positive")),
    }
}
