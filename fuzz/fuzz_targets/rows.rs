//! Row images from hostile bytes. What is accepted is encoded again to the same bytes.
#![no_main]

use carnet_base::{Bytes, RowImage};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    if let Ok(image) = RowImage::decode(&Bytes::copy_from_slice(bytes)) {
        assert_eq!(image.encode(), bytes);
    }
});
