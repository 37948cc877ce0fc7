//! Injects faults.

use std::rc::Rc;
use std::time::Duration;

use carnet_base::Encoding;

use super::fault::Fault;
use super::weak::FaultRates;
use super::world::{OfProcess, World, clients_of, processes};
use crate::executor::Process;

impl World {
    /// Injects a fault, more often at the leader than at other processes.
    pub(super) async fn inject<D: OfProcess>(self: &Rc<Self>) {
        let (fault, process, other, time) = {
            let random = &mut *self.random.borrow_mut();
            let process = match self.leader() {
                Some(leader) if random.percent(70) => leader,
                _ => Process(u32::try_from(random.between(1, 3)).unwrap_or(1)),
            };
            let other = random.count(0, 2);
            (random.pick(self.setup.fault_kinds), process, other, random.micros(1_000, 80_000))
        };
        self.executor.note(fault as u64);
        match fault {
            Fault::Kill => {
                self.kill(process);
                self.executor.sleep(time / 4).await;
                self.start(process);
                self.employ::<D>(process);
            }
            Fault::Pause => {
                self.executor.pause(process, time);
                self.executor.pause(clients_of(process), time);
            }
            Fault::CutFromReplicas => {
                self.cluster.cut(process, other);
                if self.random.borrow_mut().percent(60) {
                    self.cluster.cut(process, other + 1);
                }
            }
            Fault::CutFromEachOther => {
                for other in processes().filter(|other| *other != process) {
                    let [there, back] = [(); 2].map(|()| self.random.borrow_mut().percent(70));
                    if there {
                        self.network.cut(process, other);
                    }
                    if back {
                        self.network.cut(other, process);
                    }
                }
            }
            Fault::ReplicaDown => self.cluster.take_down(other),
            Fault::HighRates => {
                self.cluster.set_fault_rates(FaultRates { lost: 200, late: 300, unanswered: 400 });
                self.network.set_fault_rates(200, 20);
            }
            Fault::ClockJump => {
                let hours = Duration::from_secs(3600 * (1 + other as u64)).as_micros();
                let micros = i64::try_from(hours).unwrap_or_default();
                self.clocks[&process].jump(if time.as_micros() % 2 == 0 {
                    micros
                } else {
                    -micros
                });
            }
            Fault::Migration => {
                let log = self.logs.borrow().get(&process).map(std::sync::Arc::clone);
                let to = if other == 0 { Encoding::V2 } else { Encoding::V3 };
                if let Some(log) = log {
                    self.executor.spawn(process, async move {
                        // It may fail like the cluster.
                        let _ = log.migrate(to).await;
                    });
                }
            }
        }
    }

    fn leader(&self) -> Option<Process> {
        let logs = self.logs.borrow();
        logs.iter().find(|(_, log)| log.is_leading()).map(|(process, _)| *process)
    }
}
