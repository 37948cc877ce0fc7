//! Hostile lines: a node answers or drops any line, and continues.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use carnet_base::{Moment, Rng, SeededRng};
use carnet_maelstrom::{
    Message, Node, Notify, Options, Output, Tasks, Timer, Wait, WorkloadRequest,
};

const LINES: [&str; 7] = [
    r#"{"src":"c1","dest":"n0","body":{"type":"txn","msg_id":2,"txn":[["r",1,null],["append","a",2],["w",[3],{"x":1}]]}}"#,
    r#"{"src":"c1","dest":"n0","body":{"type":"cas","msg_id":3,"key":1,"from":2,"to":3,"create_if_not_exists":true}}"#,
    r#"{"src":"c1","dest":"n0","body":{"type":"read","msg_id":4}}"#,
    r#"{"src":"c1","dest":"n0","body":{"type":"add","msg_id":5,"element":0.5}}"#,
    r#"{"src":"lin-kv","dest":"n0","body":{"type":"error","in_reply_to":1,"code":20,"text":"\u00e9"}}"#,
    r#"{"src":"lin-kv","dest":"n0","body":{"type":"read_ok","in_reply_to":1,"value":"AQABAAAAAAAAAAAA"}}"#,
    r#"{"src":"n1","dest":"n0","body":{"type":"root","value":"AQABAAAAAAAAAAAA"}}"#,
];

fn mutated(rng: &mut SeededRng) -> Vec<u8> {
    let line = LINES[usize::try_from(rng.below(LINES.len() as u64)).unwrap()];
    let mut bytes = line.as_bytes().to_vec();
    for _ in 0..rng.below(4) {
        let at = usize::try_from(rng.below(bytes.len() as u64)).unwrap();
        let [byte, other, ..] = rng.next_u64().to_le_bytes();
        match rng.below(4) {
            0 => bytes.truncate(at.max(1)),
            1 => bytes.insert(at, byte),
            // Bytes that are significant in JSON.
            2 => bytes[at] = b"{}[]\",:0-"[usize::from(other % 9)],
            _ => bytes[at] = byte,
        }
    }
    bytes
}

#[test]
fn mutated_and_random_lines_are_read_or_refused() {
    let mut rng = SeededRng::new(1);
    let (mut messages, mut requests) = (0, 0);
    for round in 0..50_000 {
        let line = if round % 5 == 0 {
            (0..rng.below(60)).map(|_| rng.next_u64().to_le_bytes()[0]).collect()
        } else {
            mutated(&mut rng)
        };
        let Ok(message) = Message::decode(&line) else { continue };
        messages += 1;
        let again = Message::decode(message.clone().encode().as_bytes());
        assert_eq!(again.as_ref(), Ok(&message));
        requests += u64::from(WorkloadRequest::decode(&message.kind, message.fields).is_ok());
    }
    assert!(messages > 5_000 && requests > 2_000, "{messages}, {requests}");
}

/// Environment of a node whose time advances only when a test says so.
#[derive(Default)]
struct Environment {
    sent: Mutex<Vec<Message>>,
    woken: Mutex<Vec<u64>>,
    now: Mutex<Duration>,
}

impl Output for Environment {
    fn send(&self, message: Message) {
        self.sent.lock().unwrap().push(message);
    }
}

impl Notify for Environment {
    fn notify(&self, task: u64) {
        self.woken.lock().unwrap().push(task);
    }
}

/// A timer that never blocks: each wait moves the time on.
struct Impatient(Arc<Environment>);

impl Timer for Impatient {
    fn now(&self) -> Moment {
        Moment(*self.0.now.lock().unwrap())
    }

    fn wait(&self, wait: Duration) -> Wait {
        // Answers mostly come before timeouts, but not always.
        let environment = Arc::clone(&self.0);
        let mut polls = 0;
        Box::pin(std::future::poll_fn(move |context| {
            polls += 1;
            if polls > 2 {
                *environment.now.lock().unwrap() += wait;
                return std::task::Poll::Ready(());
            }
            context.waker().wake_by_ref();
            std::task::Poll::Pending
        }))
    }
}

#[test]
fn a_node_survives_hostile_peers_and_services() {
    for seed in 0..20 {
        let mut rng = SeededRng::new(seed);
        let environment = Arc::new(Environment::default());
        let timer = Arc::new(Impatient(Arc::clone(&environment)));
        let output = Arc::clone(&environment) as Arc<dyn Output>;
        let node = Node::new(Options::default(), output, timer, Box::new(SeededRng::new(seed)));
        let mut tasks = Tasks::new(Arc::clone(&environment) as Arc<dyn Notify>);
        let mut take = |line: &[u8]| {
            if let Some(work) = node.receive(line) {
                tasks.start(work);
            }
            for _ in 0..8 {
                let woken = std::mem::take(&mut *environment.woken.lock().unwrap());
                woken.into_iter().for_each(|task| tasks.poll(task));
            }
            std::mem::take(&mut *environment.sent.lock().unwrap())
        };
        take(br#"{"src":"c0","dest":"n0","body":{"type":"init","msg_id":1,"node_id":"n0","node_ids":["n0","n1"]}}"#);
        let mut asked = Vec::new();
        for _ in 0..1_500 {
            let mut line = mutated(&mut rng);
            // An answer to a request that the node has sent.
            if let Some(Message { dest, id: Some(id), .. }) = asked.pop() {
                let text = String::from_utf8_lossy(&line).into_owned();
                let text = text.replace("\"in_reply_to\":1", &format!("\"in_reply_to\":{id}"));
                line = text.replace("lin-kv", &dest).into_bytes();
            }
            asked.extend(take(&line).into_iter().filter(|sent| sent.in_reply_to.is_none()));
        }
        let echo = br#"{"src":"c9","dest":"n0","body":{"type":"echo","msg_id":99999,"echo":[7]}}"#;
        let sent = take(echo);
        let answered = |sent: &Message| sent.in_reply_to == Some(99999) && sent.kind == "echo_ok";
        assert!(sent.iter().any(answered), "seed {seed}");
    }
}

/// A timer whose waits never end.
struct Patient;

impl Timer for Patient {
    fn now(&self) -> Moment {
        Moment::default()
    }

    fn wait(&self, wait: Duration) -> Wait {
        Box::pin(async move {
            if !wait.is_zero() {
                std::future::pending::<()>().await;
            }
        })
    }
}

#[test]
fn only_the_receiver_of_a_request_can_answer() {
    let environment = Arc::new(Environment::default());
    let mut options = Options::default();
    options.tree.batch_interval = Duration::ZERO;
    let output = Arc::clone(&environment) as Arc<dyn Output>;
    let node = Node::new(options, output, Arc::new(Patient), Box::new(SeededRng::new(1)));
    let mut tasks = Tasks::new(Arc::clone(&environment) as Arc<dyn Notify>);
    let mut take = |src: &str, body: String| {
        let line = format!(r#"{{"src":"{src}","dest":"n0","body":{body}}}"#);
        node.receive(line.as_bytes()).into_iter().for_each(|work| tasks.start(work));
        let woken = std::mem::take(&mut *environment.woken.lock().unwrap());
        woken.into_iter().for_each(|task| tasks.poll(task));
        std::mem::take(&mut *environment.sent.lock().unwrap())
    };
    let init = r#"{"type":"init","msg_id":1,"node_id":"n0","node_ids":["n0","n1"]}"#;
    take("c0", init.to_owned());
    let asked = take("c1", r#"{"type":"write","msg_id":2,"key":1,"value":1}"#.to_owned());
    let [Message { dest, kind, id: Some(id), .. }] = &asked[..] else { panic!("{asked:?}") };
    assert_eq!((dest.as_str(), kind.as_str()), ("lin-kv", "read"));
    let absent = format!(r#"{{"type":"error","code":20,"in_reply_to":{id}}}"#);
    assert_eq!(take("n1", absent.clone()), []);
    let moved = take("lin-kv", absent);
    let [Message { kind, id: Some(id), .. }] = &moved[..] else { panic!("{moved:?}") };
    assert_eq!(kind, "cas");
    let done = format!(r#"{{"type":"cas_ok","in_reply_to":{id}}}"#);
    assert_eq!(take("n1", done.clone()), []);
    // The client gets an answer, and the other node a hint.
    let kinds = take("lin-kv", done).into_iter().map(|sent| (sent.dest, sent.kind));
    let kinds: Vec<(String, String)> = kinds.collect();
    let expected = [("n1", "root"), ("c1", "write_ok")];
    assert_eq!(kinds, expected.map(|(dest, kind)| (dest.to_owned(), kind.to_owned())));
}
