//! Registers: blind writes, ordered only by the write-write check, and reads.

use carnet_base::Result;
use carnet_checker::{Key, Op};
use carnet_store::BeginKind;

use super::{Numbers, Workload, cell, decode};
use crate::client::Client;
use crate::database::Database;
use crate::run_record::Part;

const REGISTERS: u64 = 5;

pub(super) async fn run<D: Database>(client: &mut Client<D>, numbers: &Numbers) -> Result<()> {
    let mut tx = client.begin(Part::Registers, BeginKind::ReadWrite).await?;
    let blind = client.random.percent(40);
    for _ in 0..client.random.count(1, 3) {
        let register = i64::try_from(client.random.below(REGISTERS)).unwrap_or_default();
        let (key, name) = (cell(Workload::Registers, register, ""), Key::Int(register));
        if blind || client.random.percent(50) {
            let value = numbers.fresh();
            tx.did(Op::Write { key: name, value });
            tx.put(&key, value.to_be_bytes().to_vec())?;
        } else {
            let bytes = tx.get(&key).await?;
            let value = bytes.and_then(|bytes| decode(&bytes).first().copied());
            tx.did(Op::ReadRegister { key: name, value });
        }
    }
    tx.commit().await.map(drop)
}
