//! Helpers of the unit tests.

use carnet_admission::{AdmissionRequest, Arrived, Class, Level, Permit, Workload};

use crate::Db;

/// Admits a statement to a database with admission control while no other runs.
pub(crate) fn admitted(db: &Db) -> Permit {
    let level = Level::default();
    let request = AdmissionRequest::new(&level, Class::Write, Workload::Interactive, 1);
    match db.admission().expect("it was set").arrive(request) {
        Ok(Arrived::Admitted(permit)) => permit,
        _ => panic!("another statement runs"),
    }
}
