//! A relay between two processes that loses their messages.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use carnet_sequencer::TcpNetwork;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, ReadHalf, WriteHalf, split};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::{Handle, Runtime};
use tokio::sync::{Mutex, watch};

type Passing = Arc<AtomicBool>;

/// Forwards requests to a process, and its answers.
pub struct Relay {
    place: SocketAddr,
    runtime: Handle,
    listener: Arc<Mutex<TcpListener>>,
    questions: Passing,
    answers: Passing,
    cuts: watch::Sender<u64>,
}

impl Relay {
    pub fn new(runtime: &Runtime) -> Self {
        let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0")).unwrap();
        let place = listener.local_addr().unwrap();
        let passing = || Arc::new(AtomicBool::new(true));
        Self {
            place,
            runtime: runtime.handle().clone(),
            listener: Arc::new(Mutex::new(listener)),
            questions: passing(),
            answers: passing(),
            cuts: watch::Sender::new(0),
        }
    }

    pub fn place(&self) -> String {
        self.place.to_string()
    }

    pub fn lead_to(&self, network: &TcpNetwork) {
        let (to, listener) = (network.listens_on(), Arc::clone(&self.listener));
        let (questions, answers) = (Arc::clone(&self.questions), Arc::clone(&self.answers));
        let cuts = self.cuts.clone();
        self.runtime.spawn(async move {
            let listener = listener.lock().await;
            while let Ok((near, _)) = listener.accept().await {
                let Ok(far) = TcpStream::connect(to).await else { continue };
                let ((near_in, near_out), (far_in, far_out)) = (split(near), split(far));
                let (questions, answers) = (Arc::clone(&questions), Arc::clone(&answers));
                let mut cut = cuts.subscribe();
                tokio::spawn(async move {
                    tokio::select! {
                        _ = cut.changed() => {}
                        () = pass(near_in, far_out, questions) => {}
                        () = pass(far_in, near_out, answers) => {}
                    }
                });
            }
        });
    }

    pub fn lose_questions(&self) {
        self.questions.store(false, Ordering::SeqCst);
    }

    pub fn lose_answers(&self) {
        self.answers.store(false, Ordering::SeqCst);
    }

    /// Breaks every connection, and loses nothing from then on.
    pub fn cut(&self) {
        self.cuts.send_modify(|cuts| *cuts += 1);
        self.questions.store(true, Ordering::SeqCst);
        self.answers.store(true, Ordering::SeqCst);
    }
}

async fn pass(mut from: ReadHalf<TcpStream>, mut to: WriteHalf<TcpStream>, passing: Passing) {
    let mut buffer = vec![0; 64 << 10];
    while let Ok(bytes @ 1..) = from.read(&mut buffer).await {
        if passing.load(Ordering::SeqCst) && to.write_all(&buffer[..bytes]).await.is_err() {
            return;
        }
    }
}
