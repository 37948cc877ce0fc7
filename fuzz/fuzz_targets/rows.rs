//! Row images and deltas from hostile bytes. What is accepted is encoded again to bytes of the same
//! meaning.
#![no_main]

use carnet_data::row::{Collection, CollectionKind};
use carnet_base::Bytes;
use carnet_data::{DataType, RowDelta, RowImage, RowReader};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let bytes = Bytes::copy_from_slice(bytes);
    let _ = RowReader::new(&bytes).and_then(RowReader::lifetime);
    let map = DataType::map(DataType::Int, DataType::Text);
    if let Ok(image) = RowImage::decode(&bytes) {
        assert_eq!(RowImage::decode(&image.encode()).unwrap(), image);
        for (_, collection) in image.collections() {
            let _ = collection.serialize(&map);
        }
    }
    if let Ok(delta) = RowDelta::decode(&bytes) {
        assert_eq!(delta.encode(), bytes);
        let _ = delta.apply(&mut RowImage::default());
    }
    for kind in [CollectionKind::List, CollectionKind::Map, CollectionKind::Record] {
        let _ = Collection::from_serialized(kind, &bytes, None);
    }
});
