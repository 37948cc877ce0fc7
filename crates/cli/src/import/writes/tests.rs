//! Tests of the statements that write a row.

use super::super::user_types::UserTypes;
use super::*;

fn bytes(text: &str) -> Option<Bytes> {
    Some(Bytes::copy_from_slice(text.as_bytes())).filter(|_| text != "-")
}

/// Makes a writer of columns, each "name kind type"; `timed` are the columns with times.
fn writer(columns: &[&str], timed: &[usize], records_times: bool) -> Writer {
    let rows: Vec<Row> = columns
        .iter()
        .map(|column| {
            let parts: Vec<&str> = column.splitn(3, ' ').collect();
            let position = Some(Bytes::from_static(&[0; 4]));
            vec![bytes(parts[0]), bytes(parts[1]), position, bytes("asc"), bytes(parts[2])]
        })
        .collect();
    let shape = Shape::read(&rows, &UserTypes::default()).unwrap().unwrap();
    let table = TableName { keyspace: "k".into(), table: "t".into() };
    Writer::new(shape, table, timed.to_vec(), records_times)
}

fn int(number: i32) -> Option<Bytes> {
    Some(Bytes::copy_from_slice(&number.to_be_bytes()))
}

fn ints(numbers: &[i32]) -> Option<Bytes> {
    let count = i32::try_from(numbers.len()).unwrap();
    let elements = numbers.iter().flat_map(|number| [4, *number]);
    let whole = [count].into_iter().chain(elements);
    Some(whole.flat_map(i32::to_be_bytes).collect::<Vec<u8>>().into())
}

fn long(number: i64) -> Option<Bytes> {
    Some(Bytes::copy_from_slice(&number.to_be_bytes()))
}

fn set(value: Option<Bytes>) -> Field {
    Field::from(value)
}

const READINGS: [&str; 5] = [
    "k partition_key int",
    "c clustering int",
    "s static int",
    "a regular int",
    "b regular set<int>",
];

#[test]
fn statements_name_all_columns() {
    let texts: Vec<String> = writer(&READINGS, &[], true)
        .statements()
        .into_iter()
        .map(|(statement, text)| format!("{statement:?}: {text}"))
        .collect();
    assert_eq!(
        texts,
        [
            "Row: INSERT INTO k.t (k, c, a, b) VALUES (?, ?, ?, ?) USING TTL ? AND TIMESTAMP ?",
            "More: UPDATE k.t USING TTL ? AND TIMESTAMP ? SET a = ?, b = ? WHERE k = ? AND c = ?",
            "Append(4): UPDATE k.t USING TTL ? AND TIMESTAMP ? SET b = b + ? WHERE k = ? AND c = ?",
            "Statics: INSERT INTO k.t (k, s) VALUES (?, ?) USING TTL ? AND TIMESTAMP ?",
        ]
    );
    let counters =
        ["k partition_key int", "c clustering int", "s static counter", "n regular counter"];
    let texts: Vec<String> =
        writer(&counters, &[], true).statements().into_iter().map(|(_, text)| text).collect();
    assert_eq!(
        texts,
        [
            "DELETE FROM k.t WHERE k = ? AND c = ?",
            "UPDATE k.t SET n = n + ? WHERE k = ? AND c = ?",
            "DELETE s FROM k.t WHERE k = ?",
            "UPDATE k.t SET s = s + ? WHERE k = ?",
        ]
    );
    let keys_only = writer(&["k partition_key int"], &[], false).statements();
    assert_eq!(
        keys_only,
        [(Statement::Row, "INSERT INTO k.t (k) VALUES (?) USING TTL ?".to_owned())]
    );
}

#[test]
fn values_with_other_times_are_written_by_other_statements() {
    let writer = writer(&READINGS, &[3, 4], true);
    // Of the set, 5 expires; `a` expires later, so that the row lasts as long as 4 and 6.
    let ttls = {
        let parts: [&[u8]; 4] = [&[0, 0, 0, 3], &[255; 4], &[0, 0, 0, 4, 0, 0, 0, 9], &[255; 4]];
        Some(Bytes::from(parts.concat()))
    };
    let row = vec![int(1), int(2), None, int(3), ints(&[4, 5, 6]), int(60), long(77), ttls, None];
    let divided = writer.divide(&row).unwrap();
    let (none, unset) = (set(int(0)), Field::Unset);
    assert_eq!(
        divided.row,
        [
            Write {
                statement: Statement::Row,
                values: vec![
                    set(int(1)),
                    set(int(2)),
                    unset.clone(),
                    set(ints(&[4, 6])),
                    none.clone(),
                    unset.clone()
                ],
            },
            Write {
                statement: Statement::More,
                values: vec![
                    set(int(60)),
                    set(long(77)),
                    set(int(3)),
                    unset.clone(),
                    set(int(1)),
                    set(int(2))
                ],
            },
            Write {
                statement: Statement::Append(4),
                values: vec![set(int(9)), unset.clone(), set(ints(&[5])), set(int(1)), set(int(2))],
            },
        ]
    );
    assert_eq!(
        divided.statics,
        [Write {
            statement: Statement::Statics,
            values: vec![set(int(1)), Field::Null, none, unset],
        }],
        "an earlier copy may hold a value that was deleted since"
    );
    assert_eq!(divided.partition, [int(1)]);
    let keys: Vec<String> = divided.row.iter().map(|write| writer.key_of(write)).collect();
    assert_eq!(keys, ["k = 1, c = 2", "k = 1, c = 2", "k = 1, c = 2"]);
    assert_eq!(writer.key_of(&divided.statics[0]), "k = 1");
    assert!(writer.divide(&row[..8].to_vec()).is_err());
}

#[test]
fn row_whose_values_all_expire_expires_with_the_last() {
    let columns = ["k partition_key int", "a regular int", "b regular int"];
    let writer = writer(&columns, &[1, 2], false);
    let row = vec![int(1), int(2), int(3), int(60), None, int(90), None];
    let writes = writer.divide(&row).unwrap().row;
    let first = vec![set(int(1)), Field::Unset, set(int(3)), set(int(90))];
    assert_eq!((writes[0].statement, &writes[0].values), (Statement::Row, &first));
    assert_eq!(writes[1].values[0], set(int(60)));
    let empty = vec![int(1), None, None, None, None, None, None];
    let writes = writer.divide(&empty).unwrap().row;
    assert_eq!(writes[0].values, [set(int(1)), Field::Null, Field::Null, set(int(0))]);
    assert_eq!(writes.len(), 1);
}

#[test]
fn partition_without_rows_has_static_columns_only() {
    let writer = writer(&READINGS, &[], false);
    let row = vec![int(1), None, int(7), None, None];
    let divided = writer.divide(&row).unwrap();
    assert_eq!((divided.row, divided.statics.len()), (vec![], 1));
}

#[test]
fn counters_are_removed_and_added() {
    let counters = ["k partition_key int", "n regular counter", "m regular counter"];
    let writer = writer(&counters, &[], true);
    let writes = writer.divide(&vec![int(1), long(8), None]).unwrap().row;
    // Columns are in the order of their names.
    let count = vec![Field::Unset, set(long(8)), set(int(1))];
    let row = vec![int(1), None, long(8)];
    assert_eq!(writer.divide(&row).unwrap().row[1].values, count);
    assert_eq!(writes[0], Write { statement: Statement::Clear, values: vec![set(int(1))] });
    assert!(writes.iter().all(|write| write.statement.is_on_counters()));
    assert_eq!(writer.key_of(&writes[1]), "k = 1");
}
