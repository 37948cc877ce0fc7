//! Decoding of damaged roots and nodes: an error or the same bytes, never a panic.

use carnet_base::{Bytes, Rng, SeededRng};
use carnet_tree::{
    Attempt, Below, Entry, Move, Node, NodeId, Pointer, Root, Stored, TransactorId, Write,
};

fn id(index: u32) -> NodeId {
    NodeId::new(TransactorId(7), Attempt(3), index).unwrap()
}

fn nodes() -> Vec<Node> {
    let inline = Stored::Inline(Bytes::from_static(b"value"));
    let key = |key: &'static str| Bytes::from_static(key.as_bytes());
    let leaf = |name: &'static str, stored| Entry { key: key(name), stored };
    let write = |name: &'static str, stored| Write { key: key(name), stored };
    vec![
        Node::Inner(vec![
            (0, Pointer { id: id(1), is_leaf: true }),
            (31, Pointer { id: id(2), is_leaf: false }),
        ]),
        Node::Leaf(vec![leaf("a", inline.clone()), leaf("b", Stored::Node(id(3)))]),
        Node::Value(Bytes::from(vec![9; 300])),
        Node::Run(vec![write("a", None), write("b", Some(inline))]),
    ]
}

fn root() -> Root {
    let moved =
        |who, generation| Move { transactor: TransactorId(who), attempt: Attempt(5), generation };
    Root {
        history: vec![moved(1, 8), moved(2, 9)],
        forgotten: 7,
        below: Below { run: Some(id(4)), top: Some(Pointer { id: id(5), is_leaf: false }) },
        buffer: vec![
            Write { key: Bytes::from_static(b"k"), stored: None },
            Write { key: Bytes::from_static(b"j"), stored: Some(Stored::Node(id(6))) },
        ],
    }
}

/// Appends a correct checksum, so that the code after the check is tested, too.
fn resealed(bytes: &[u8], name: &[u8]) -> Bytes {
    let sum = crc32c::crc32c_append(crc32c::crc32c(name), bytes);
    Bytes::from([bytes, &sum.to_le_bytes()].concat())
}

fn damage(rng: &mut SeededRng, bytes: &[u8]) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    for _ in 0..=rng.below(3) {
        let at = usize::try_from(rng.below(bytes.len() as u64 + 1)).unwrap();
        let [byte, ..] = rng.next_u64().to_le_bytes();
        match rng.below(4) {
            0 => bytes.truncate(at),
            1 => bytes.insert(at, byte),
            _ if at < bytes.len() => bytes[at] = byte,
            _ => bytes.push(byte),
        }
    }
    bytes
}

#[test]
fn nodes_and_roots_round_trip() {
    for node in nodes() {
        let bytes = node.encode(id(0));
        assert_eq!(Node::decode(id(0), &bytes).unwrap(), node);
        // The checksum includes the id.
        assert!(Node::decode(id(1), &bytes).is_err());
    }
    assert_eq!(Root::decode(&root().encode()).unwrap(), root());
}

#[test]
fn damaged_bytes_are_refused_or_round_trip() {
    let mut rng = SeededRng::new(1);
    let (mut refused, mut accepted) = (0, 0);
    let mut count = |is_accepted| *(if is_accepted { &mut accepted } else { &mut refused }) += 1;
    for _ in 0..5_000 {
        for node in nodes() {
            let sealed = node.encode(id(0));
            let damaged = damage(&mut rng, &sealed[..sealed.len() - 4]);
            let bytes = resealed(&damaged, &id(0).to_bytes());
            let decoded = Node::decode(id(0), &bytes);
            count(decoded.is_ok());
            if let Ok(node) = decoded {
                assert_eq!(node.encode(id(0)), bytes);
            }
        }
        let sealed = root().encode();
        let bytes = resealed(&damage(&mut rng, &sealed[..sealed.len() - 4]), b"root");
        let decoded = Root::decode(&bytes);
        count(decoded.is_ok());
        if let Ok(root) = decoded {
            assert_eq!(root.encode(), bytes);
        }
        let len = usize::try_from(rng.below(60)).unwrap();
        let noise: Vec<u8> = (0..len).map(|_| rng.next_u64().to_le_bytes()[0]).collect();
        assert!(Root::decode(&Bytes::from(noise.clone())).is_err());
        assert!(Node::decode(id(0), &Bytes::from(noise)).is_err());
    }
    assert!(refused > 5_000 && accepted > 1_000, "{refused} refused, {accepted} accepted");
}

#[test]
fn flipped_bit_is_detected() {
    let sealed = root().encode();
    for bit in 0..sealed.len() * 8 {
        let mut bytes = sealed.to_vec();
        bytes[bit / 8] ^= 1 << (bit % 8);
        assert!(Root::decode(&Bytes::from(bytes)).is_err(), "bit {bit}");
    }
}
