//! Clustering keys, partition keys and commit entries from hostile bytes. What is accepted is
//! encoded again to the same bytes.
#![no_main]

use carnet_base::commit_encoding::{v1, v2};
use carnet_data::key::{self, Order};
use carnet_base::{Timestamp, var_long};
use carnet_data::{DataType, partition};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: (u8, u8, bool, bool, u64, Vec<u8>)| {
    let (a, b, desc_a, desc_b, start, bytes) = input;
    let of = |n: u8| match usize::from(n) % (DataType::SCALARS.len() + 5) {
        20 => DataType::list(DataType::Text),
        21 => DataType::tuple([DataType::Int, DataType::set(DataType::Blob)]),
        22 => DataType::set(DataType::Decimal),
        23 => DataType::vector(DataType::Float, 2),
        24 => DataType::vector(DataType::Varint, 3),
        scalar => DataType::SCALARS[scalar].clone(),
    };
    let types = [of(a), of(b)];
    let order = |desc: bool| if desc { Order::Desc } else { Order::Asc };
    let orders = [order(desc_a), order(desc_b)];
    if let Ok(values) = key::decode(&bytes, &types, &orders) {
        assert_eq!(key::encode(&values, &orders).expect("decoded values encode"), bytes);
    }
    let _ = partition::decode(&types, &bytes);
    let _ = var_long::decode(&bytes);
    if let Some(start) = Timestamp::new(start) {
        for decoded in [v1::decode(start, &bytes), v2::decode(start, &bytes)] {
            drop(decoded);
        }
    }
    let _ = v2::start_of(&bytes, &bytes);
});
