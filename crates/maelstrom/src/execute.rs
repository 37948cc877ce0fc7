//! Applies requests to the state of all keys, inside a transaction of the tree, which may run a
//! request several times.
//!
//! A register or a list is one key, whose value is its JSON. A set has a key for each element, so
//! that an element that is added twice is there once, and a page for every [`PAGE_ELEMENTS`]
//! elements, so that adding to a large set costs no more than to a small one.

use carnet_base::{Bytes, Error, Result};
use carnet_tree::View;
use serde_json::{Map, Value};

use crate::code::Code;
use crate::message::fields;
use crate::request::{Op, Refusal, WorkloadRequest, name};

const PAGE_ELEMENTS: usize = 64;
/// Holds the number of the set's last page.
const LAST_PAGE: &[u8] = b"s";

/// Result of a transaction: the kind and the fields of its answer, or a refusal. A refusal is
/// committed like an answer.
pub(crate) type Outcome = Result<(&'static str, Map<String, Value>), Refusal>;

/// Executes a request. It writes nothing if it refuses the request.
pub(crate) fn execute(request: &WorkloadRequest, view: &mut View<'_>) -> Result<Outcome> {
    let done = |kind| Ok(Ok((kind, Map::new())));
    match request {
        WorkloadRequest::Echo(value) => Ok(Ok(("echo_ok", fields([("echo", value.clone())])))),
        WorkloadRequest::Txn(ops) => {
            let ops = ops.iter().map(|op| apply(op, view)).collect::<Result<Vec<_>>>()?;
            Ok(Ok(("txn_ok", fields([("txn", Value::Array(ops))]))))
        }
        WorkloadRequest::Read(key) => Ok(match get(view, key)? {
            Some(value) => Ok(("read_ok", fields([("value", value)]))),
            None => Err(missing(key)),
        }),
        WorkloadRequest::Write(key, value) => {
            put(view, key, value)?;
            done("write_ok")
        }
        WorkloadRequest::Cas { key, from, to, create } => match get(view, key)? {
            None if !create => Ok(Err(missing(key))),
            Some(value) if value != *from => {
                let text = format!("{key} holds {value}, not {from}");
                Ok(Err(Refusal::new(Code::PreconditionFailed, text)))
            }
            _ => {
                put(view, key, to)?;
                done("cas_ok")
            }
        },
        WorkloadRequest::Add(element) => {
            add(view, element)?;
            done("add_ok")
        }
        WorkloadRequest::ReadSet => {
            Ok(Ok(("read_ok", fields([("value", Value::Array(elements(view)?))]))))
        }
    }
}

fn missing(key: &Value) -> Refusal {
    Refusal::new(Code::KeyDoesNotExist, format!("there is no key {key}"))
}

fn apply(op: &Op, view: &mut View<'_>) -> Result<Value> {
    let answer = |kind: &str, key: &Value, value| {
        Value::Array(vec![Value::String(kind.to_owned()), key.clone(), value])
    };
    match op {
        Op::Read(key) => Ok(answer("r", key, get(view, key)?.unwrap_or(Value::Null))),
        Op::Write(key, value) => {
            put(view, key, value)?;
            Ok(answer("w", key, value.clone()))
        }
        Op::Append(key, element) => {
            let mut list = list(get(view, key)?, key)?;
            list.push(element.clone());
            put(view, key, &Value::Array(list))?;
            Ok(answer("append", key, element.clone()))
        }
    }
}

fn list(value: Option<Value>, key: &Value) -> Result<Vec<Value>> {
    match value {
        None => Ok(Vec::new()),
        Some(Value::Array(list)) => Ok(list),
        Some(_) => Err(Error::aborted(format!("{key} holds no list"))),
    }
}

fn get(view: &mut View<'_>, key: &Value) -> Result<Option<Value>> {
    get_raw(view, &name(key))
}

fn put(view: &mut View<'_>, key: &Value, value: &Value) -> Result<()> {
    view.put(name(key), value.to_string())
}

fn get_raw(view: &mut View<'_>, key: &[u8]) -> Result<Option<Value>> {
    let Some(json) = view.get(key)? else { return Ok(None) };
    let damaged = |error| Error::corrupted("a value is no JSON").with_source(error);
    serde_json::from_slice(&json).map(Some).map_err(damaged)
}

fn element_name(element: &Value) -> Bytes {
    Bytes::from(format!("e{element}"))
}

fn page_name(number: u64) -> Bytes {
    Bytes::from(format!("p{number}"))
}

fn last_page(view: &mut View<'_>) -> Result<u64> {
    Ok(get_raw(view, LAST_PAGE)?.and_then(|number| number.as_u64()).unwrap_or(0))
}

fn page(view: &mut View<'_>, number: u64) -> Result<Vec<Value>> {
    list(get_raw(view, &page_name(number))?, &Value::from(number))
}

fn add(view: &mut View<'_>, element: &Value) -> Result<()> {
    let (known, last) = (view.get(&element_name(element)), last_page(view));
    if known?.is_some() {
        return Ok(());
    }
    let mut number = last?;
    let mut elements = page(view, number)?;
    if elements.len() >= PAGE_ELEMENTS {
        (number, elements) = (number + 1, Vec::new());
        view.put(Bytes::from_static(LAST_PAGE), number.to_string())?;
    }
    elements.push(element.clone());
    view.put(page_name(number), Value::Array(elements).to_string())?;
    view.put(element_name(element), Bytes::new())
}

fn elements(view: &mut View<'_>) -> Result<Vec<Value>> {
    let last = last_page(view)?;
    // The map requests all pages before a missing page ends the loop below, so they are read at
    // once.
    let pages: Vec<Result<Vec<Value>>> = (0..=last).map(|number| page(view, number)).collect();
    let mut elements = Vec::new();
    for page in pages {
        elements.extend(page?);
    }
    Ok(elements)
}
