//! Registers: one row each, set by conditional writes.

use carnet_base::Bytes;
use carnet_store::cluster::{Faulty, ReadMode, Register, Registers, SetAnswer};

use crate::cluster::CqlCluster;
use crate::fault::{Access, misunderstood, unclear};
use crate::session::Bind;
use crate::statement::{Registers as Of, Statement};

const fn name(register: Register) -> Bind<'static> {
    Bind::Text(match register {
        Register::Lease => "lease",
        Register::Coordination => "coordination",
        Register::SweepMark => "sweep_mark",
    })
}

impl Registers for CqlCluster {
    async fn read_register(&self, register: Register, mode: ReadMode) -> Faulty<Option<Bytes>> {
        let how = match mode {
            ReadMode::Serial => self.session.serial(),
            ReadMode::Quorum => self.session.read(),
        };
        let statement = Statement::Registers(Of::Read);
        let rows = self.session.rows(how, statement, &[name(register)]).await?;
        let row = rows.maybe_first_row::<(Option<Vec<u8>>,)>();
        let row = row.map_err(|error| misunderstood(Access::Read, error))?;
        Ok(row.and_then(|(value,)| value).map(Bytes::from))
    }

    async fn compare_and_set(
        &self,
        register: Register,
        expected: Option<&Bytes>,
        new: &Bytes,
    ) -> Faulty<SetAnswer> {
        let expected = expected.map_or(Bind::Null, |value| Bind::Blob(value));
        let values = [Bind::Blob(new), name(register), expected];
        let answer = self.session.decide(Statement::Registers(Of::CompareAndSet), &values).await?;
        Ok(if answer.is_applied().map_err(unclear)? {
            SetAnswer::Applied
        } else {
            SetAnswer::Refused(answer.first_blob("value").map_err(unclear)?)
        })
    }
}
