//! Takes the bytes of a clustering key's components.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use carnet_base::error::{Error, Result};

use crate::value::DataType;

/// Follows a zero byte of the value; sorts after the end, so that a prefix comes first.
pub(super) const ESCAPED: u8 = 0xff;
/// Follows the zero byte that ends the value.
pub(super) const END: u8 = 0x00;

/// The rest of a key. Each method takes bytes off its front.
pub(super) struct KeyReader<'a, 'b> {
    pub(super) rest: &'a mut &'b [u8],
    pub(super) mask: u8,
}

impl KeyReader<'_, '_> {
    pub(super) fn array<const N: usize>(&mut self) -> Result<[u8; N]> {
        let (taken, rest) = self.rest.split_first_chunk().ok_or_else(too_short)?;
        *self.rest = rest;
        Ok(taken.map(|byte| byte ^ self.mask))
    }

    pub(super) fn u32(&mut self) -> Result<u32> {
        self.array().map(u32::from_be_bytes)
    }

    pub(super) fn u64(&mut self) -> Result<u64> {
        self.array().map(u64::from_be_bytes)
    }

    pub(super) fn bytes(&mut self, length: usize) -> Result<Vec<u8>> {
        let (taken, rest) = self.rest.split_at_checked(length).ok_or_else(too_short)?;
        *self.rest = rest;
        Ok(taken.iter().map(|byte| byte ^ self.mask).collect())
    }

    pub(super) fn escaped(&mut self, data_type: &DataType) -> Result<Vec<u8>> {
        let mut bytes = Vec::new();
        loop {
            // Whole runs at a time, because zeros are rare.
            let zero = self.mask;
            let run = self.rest.iter().position(|byte| *byte == zero).unwrap_or(self.rest.len());
            let (taken, rest) = self.rest.split_at(run);
            bytes.extend(taken.iter().map(|byte| byte ^ self.mask));
            *self.rest = rest;
            match self.array()? {
                [0, END] => return Ok(bytes),
                [0, ESCAPED] => bytes.push(0),
                _ => return Err(wrong(data_type)),
            }
        }
    }

    pub(super) fn text(&mut self, data_type: &DataType) -> Result<String> {
        String::from_utf8(self.escaped(data_type)?)
            .map_err(|error| wrong(data_type).with_source(error))
    }

    pub(super) fn inet(&mut self) -> Result<IpAddr> {
        let head: [u8; 4] = self.array()?;
        match self.array()? {
            [0] => Ok(IpAddr::V4(Ipv4Addr::from(head))),
            [1] => {
                let tail: [u8; 12] = self.array()?;
                let mut octets = [0; 16];
                octets[..4].copy_from_slice(&head);
                octets[4..].copy_from_slice(&tail);
                Ok(IpAddr::V6(Ipv6Addr::from(octets)))
            }
            _ => Err(wrong(&DataType::Inet)),
        }
    }
}

fn too_short() -> Error {
    Error::corrupted("a clustering key ends too early")
}

/// Returns the error for bytes that no encoder writes.
pub(super) fn wrong(data_type: &DataType) -> Error {
    Error::corrupted(format!("a clustering key holds no {data_type} where one must be"))
}
