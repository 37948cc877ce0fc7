//! Several processes over a weak cluster: leaders that die, are paused or cut off, and come back
//! believing that they lead.

mod agreed;
mod endpoint;
mod fault;
mod growth;
mod inject;
mod network;
mod scenario;
mod seams;
mod setup;
mod weak;
mod world;

pub(crate) use scenario::run;
